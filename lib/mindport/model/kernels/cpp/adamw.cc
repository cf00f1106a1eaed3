// AdamW over all parameters in one call, in place, in one pass over the memory, as torch.optim.AdamW computes it.
#include <cmath>

#include "call.h"
#include "pieces.h"

struct Rates {
  float size, root, eps;             // of the step: lr / c1, 1 / √c2, ε; c = 1 − βᵗ
  float rest1, beta2, rest2, scale;  // 1 − β1, β2, 1 − β2; what multiplies the gradients
};

// Plain loops over separate arrays: the compiler makes vectors of them.
static void update(float* __restrict__ p, float* __restrict__ m, float* __restrict__ v, const float* __restrict__ g,
                   int64_t n, float keep, Rates r) {
#pragma omp simd
  for (int64_t i = 0; i < n; i++) {
    const float grad = g[i] * r.scale;
    m[i] += r.rest1 * (grad - m[i]);
    v[i] = r.beta2 * v[i] + r.rest2 * grad * grad;
    p[i] = keep * p[i] - r.size * m[i] / (std::sqrt(v[i]) * r.root + r.eps);
  }
}

static const int SETTINGS = 5;  // inputs after the parameters and before the output

// n × p, n × m, n × v, n × g, then decay (n,), [β1, β2, ε] (3,), and lr, scale, step of one element each -> the step
static int check(const Call& call, int n) {
  const int decay = 4 * n;
  if (n < 1 || call.count != decay + SETTINGS + 1) return WRONG_COUNT;
  for (int i = 0; i < call.count; i++)
    if (!call.is(i, i == decay + 1 ? "float64" : i == decay + 4 ? "int32" : "float32")) return WRONG_DTYPE;
  for (int i = n; i < decay; i++)
    if (!call.same_shape(i % n, i)) return WRONG_SHAPE;
  for (int i = decay + 2; i < call.count; i++)
    if (call.size(i) != 1) return WRONG_SHAPE;
  return call.size(decay) == n && call.size(decay + 1) == 3 ? OK : WRONG_SHAPE;
}

static Rates rates(const double* settings, double lr, float scale, int step) {
  const double beta1 = settings[0], beta2 = settings[1];
  const double c1 = 1 - std::pow(beta1, step), c2 = 1 - std::pow(beta2, step);
  return {float(lr / c1), float(1 / std::sqrt(c2)), float(settings[2]), float(1 - beta1), float(beta2),
          float(1 - beta2), scale};
}

OPERATOR(adamw) {
  const int n = (call.count - SETTINGS - 1) / 4, decay = 4 * n;
  if (const int wrong = check(call, n)) return wrong;
  const double lr = *call.at(decay + 2);
  const int step = *call.at<int32_t>(decay + 4);
  const float scale = *call.at(decay + 3);
  *call.at(call.count - 1) = step;
  if (!std::isfinite(scale)) return OK;  // an overflow: nothing moves
  const Rates r = rates(call.at<double>(decay + 1), lr, scale, step);
  const std::vector<Piece> list = pieces(call, 0, n);
#pragma omp parallel for schedule(static)
  for (size_t i = 0; i < list.size(); i++) {
    const auto [k, from, size] = list[i];
    const float keep = float(1 - lr * call.at(decay)[k]);
    update(call.at(k) + from, call.at(n + k) + from, call.at(2 * n + k) + from, call.at(3 * n + k) + from, size, keep,
           r);
  }
  return OK;
}
