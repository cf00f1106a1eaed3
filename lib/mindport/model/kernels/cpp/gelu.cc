// GELU by tanh, x σ(2 √(2/π) (x + 0.044715 x³)), forward and backward.
#include "call.h"
#include "simd.h"

static const float LINEAR = 1.5957691216f, CUBIC = 0.0713548163f;

static inline Vec forward(Vec x) { return x * sigmoid(x * (LINEAR + CUBIC * x * x)); }

static inline Vec backward(Vec x, Vec dy) {
  Vec s = sigmoid(x * (LINEAR + CUBIC * x * x));
  return dy * s * (1.f + x * (1.f - s) * (LINEAR + 3.f * CUBIC * x * x));
}

OPERATOR(gelu_tanh) {  // x -> y
  if (call.count != 2) return WRONG_COUNT;
  if (!call.all_float32()) return WRONG_DTYPE;
  const float* x = call.at(0);
  float* y = call.at(1);
  const int64_t n = call.size(0), whole = n - n % LANES;
#pragma omp parallel for schedule(static)
  for (int64_t i = 0; i < whole; i += LANES) store(y + i, forward(load(x + i)));
  if (whole < n) store_part(y + whole, forward(load_part(x + whole, n - whole)), n - whole);
  return OK;
}

OPERATOR(gelu_tanh_grad) {  // x, dy -> dx
  if (call.count != 3) return WRONG_COUNT;
  if (!call.all_float32()) return WRONG_DTYPE;
  const float *x = call.at(0), *dy = call.at(1);
  float* dx = call.at(2);
  const int64_t n = call.size(0), whole = n - n % LANES;
#pragma omp parallel for schedule(static)
  for (int64_t i = 0; i < whole; i += LANES) store(dx + i, backward(load(x + i), load(dy + i)));
  if (whole < n) {
    Vec part = backward(load_part(x + whole, n - whole), load_part(dy + whole, n - whole));
    store_part(dx + whole, part, n - whole);
  }
  return OK;
}
