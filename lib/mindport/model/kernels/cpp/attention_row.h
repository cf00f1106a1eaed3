// Attention of a single query, as in decoding: with so few queries the lanes lie along the head instead.
#pragma once
#include <cfloat>
#include <cmath>

#include "attention_shape.h"

// scores[j] = q · k[j], j < n; 0 up to whole vectors. D is a whole number of vectors.
static void dot_rows(const float* q, In k, int64_t n, int64_t dim, float* scores) {
  Vec dots[LANES];
  for (int64_t j = 0; j < n; j += LANES) {
    for (int r = 0; r < LANES; r++) {
      dots[r] = splat(0.f);
      if (j + r < n)
        for (int64_t d = 0; d < dim; d += LANES) dots[r] += load(q + d) * load(k.from(j + r, d).data);
    }
    transpose(dots);
    Vec sums = dots[0];
    for (int r = 1; r < LANES; r++) sums += dots[r];
    store(scores + j, sums);
  }
}

// out = softmax(q · kᵀ) v over n keys, of scores that are powers of 2; gives the logarithm of their sum.
static float attend_row(const Problem& p, const float* q, In k, In v, int64_t n, float* out) {
  float *scaled = scratch(p.dim + n + 2 * 16), *weights = scaled + (p.dim + 15) / 16 * 16;
  for (int64_t d = 0; d < p.dim; d++) scaled[d] = q[d] * (p.scale * LOG2_E);
  dot_rows(scaled, k, n, p.dim, weights);
  Vec highs = splat(-FLT_MAX), sums = splat(0.f);
  for (int64_t j = n; j % LANES; j++) weights[j] = -INFINITY;
  for (int64_t j = 0; j < n; j += LANES) highs = max(load(weights + j), highs);
  const float high = largest(highs);
  for (int64_t j = 0; j < n; j += LANES) {
    const Vec weight = exp2_negative(load(weights + j) - high);
    store(weights + j, weight), sums += weight;
  }
  const float total = sum(sums);
  multiply<ACROSS, SET>({weights, n}, v, {out, p.dim}, 1, p.dim / LANES, n);
  for (int64_t d = 0; d < p.dim; d++) out[d] *= n == 0 ? 0.f : 1.f / total;
  return n == 0 ? INFINITY : high + std::log2(total);
}
