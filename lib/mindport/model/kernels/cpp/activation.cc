// Activations, forward and backward: alone, and times the other half of a gated MLP.
//
// An activation is a struct whose `at(x)` gives its value and its slope; what is not used is not computed.
#include "call.h"
#include "lanes.h"

struct Point {
  Vec value, slope;
};

struct Silu {  // x σ(x)
  static Point at(Vec x) {
    Vec s = sigmoid(x), y = x * s;
    return {y, s + y * (1.f - s)};
  }
};

struct GeluTanh {  // x σ(2 √(2/π) (x + 0.044715 x³))
  static Point at(Vec x) {
    const float linear = 1.5957691216f, cubic = 0.0713548163f;
    Vec square = x * x, s = sigmoid(x * (linear + cubic * square));
    Vec y = x * s;  // of s, y and 1 − s one is 0 far out: multiplied first, it keeps the square from overflowing
    return {y, s + y * (1.f - s) * (linear + 3.f * cubic * square)};
  }
};

struct GeluErf {  // x Φ(x), slope Φ(x) + x φ(x)
  static Point at(Vec x) {
    Vec size = choose(x < 0.f, -x, x);
    Vec bell = choose(size > 13.f, splat(0.f), exp_inside(-0.5f * x * x));  // as in sigmoid: no rest for x to multiply
    Vec tail = bell * over_bell(size), below = choose(x < 0.f, tail, 1.f - tail);
    return {x * below, below + x * bell * 0.3989422804f};
  }

  // Φ(−size) / exp(−size²/2) within 5e-7 of itself up to a size of 14, from where on Φ is less than any float:
  // t · (minimax polynomial of t), t in (0, 1].
  static Vec over_bell(Vec size) {
    Vec t = 1.f / (1.f + 0.3f * size), p = splat(0.035674876f);
    p = p * t - 0.1572034953f;
    p = p * t + 0.2063541897f;
    p = p * t - 0.0536842408f;
    p = p * t + 0.1285619220f;
    p = p * t + 0.0999134093f;
    p = p * t + 0.1207539682f;
    p = p * t + 0.1196292911f;
    return p * t;
  }
};

static Status check(const Call& call, int arrays) {  // of one shape
  if (call.count != arrays) return WRONG_COUNT;
  if (!call.all_float32()) return WRONG_DTYPE;
  for (int i = 1; i < arrays; i++)
    if (!call.same_shape(0, i)) return WRONG_SHAPE;
  return OK;
}

template <class Activation>
static Status plain(const Call& call) {  // x -> y
  if (Status wrong = check(call, 2)) return wrong;
  const float* x = call.at(0);
  float* y = call.at(1);
  walk_in_threads(call.size(0), [=](int64_t i, auto lanes) {
    lanes.put(y + i, Activation::at(lanes.get(x + i)).value);
  });
  return OK;
}

template <class Activation>
static Status plain_grad(const Call& call) {  // x, dy -> dx
  if (Status wrong = check(call, 3)) return wrong;
  const float *x = call.at(0), *dy = call.at(1);
  float* dx = call.at(2);
  walk_in_threads(call.size(0), [=](int64_t i, auto lanes) {
    lanes.put(dx + i, lanes.get(dy + i) * Activation::at(lanes.get(x + i)).slope);
  });
  return OK;
}

template <class Activation>
static Status gated(const Call& call) {  // gate, up -> y
  if (Status wrong = check(call, 3)) return wrong;
  const float *gate = call.at(0), *up = call.at(1);
  float* y = call.at(2);
  walk_in_threads(call.size(0), [=](int64_t i, auto lanes) {
    lanes.put(y + i, Activation::at(lanes.get(gate + i)).value * lanes.get(up + i));
  });
  return OK;
}

template <class Activation>
static Status gated_grad(const Call& call) {  // gate, up, dy -> dgate, dup
  if (Status wrong = check(call, 5)) return wrong;
  const float *gate = call.at(0), *up = call.at(1), *dy = call.at(2);
  float *dgate = call.at(3), *dup = call.at(4);
  walk_in_threads(call.size(0), [=](int64_t i, auto lanes) {
    Point act = Activation::at(lanes.get(gate + i));
    Vec out = lanes.get(dy + i);
    lanes.put(dgate + i, out * lanes.get(up + i) * act.slope);
    lanes.put(dup + i, out * act.value);
  });
  return OK;
}

OPERATOR(silu) { return plain<Silu>(call); }
OPERATOR(silu_grad) { return plain_grad<Silu>(call); }
OPERATOR(gelu_tanh) { return plain<GeluTanh>(call); }
OPERATOR(gelu_tanh_grad) { return plain_grad<GeluTanh>(call); }
OPERATOR(gelu_erf) { return plain<GeluErf>(call); }
OPERATOR(gelu_erf_grad) { return plain_grad<GeluErf>(call); }
OPERATOR(swiglu) { return gated<Silu>(call); }
OPERATOR(swiglu_grad) { return gated_grad<Silu>(call); }
OPERATOR(geglu_tanh) { return gated<GeluTanh>(call); }
OPERATOR(geglu_tanh_grad) { return gated_grad<GeluTanh>(call); }
OPERATOR(geglu_erf) { return gated<GeluErf>(call); }
OPERATOR(geglu_erf_grad) { return gated_grad<GeluErf>(call); }
