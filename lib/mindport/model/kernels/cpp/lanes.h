// Loops over an array a vector at a time. The body is called as f(i, lanes), where `lanes` reads and writes the
// LANES floats from i on; only what remains at the end comes as a part, so the loop itself has no branches.
#pragma once
#include "simd.h"

const int64_t PARALLEL = 1 << 14;  // floats: with fewer, threads cost more than they bring

struct Whole {
  Vec get(const float* p, float = 0.f) const { return load(p); }
  void put(float* p, Vec x) const { store(p, x); }
};

struct Part {
  int64_t n;
  Vec get(const float* p, float rest = 0.f) const { return load_part(p, n, rest); }
  void put(float* p, Vec x) const { store_part(p, x, n); }
};

template <class F>
static inline void walk(int64_t n, F f) {
  const int64_t whole = n - n % LANES;
  for (int64_t i = 0; i < whole; i += LANES) f(i, Whole{});
  if (whole < n) f(whole, Part{n - whole});
}

template <class F>
static inline void walk_in_threads(int64_t n, F f) {
  const int64_t whole = n - n % LANES;
#pragma omp parallel for schedule(static) if (n > PARALLEL)
  for (int64_t i = 0; i < whole; i += LANES) f(i, Whole{});
  if (whole < n) f(whole, Part{n - whole});
}

template <int K>
struct Sums {
  float of[K];
};

// K sums over an array at once: f(i, lanes, total) adds to total[0] … total[K-1]. Four totals of each run side by
// side: an addition need not wait for the one before, and rounding errors grow with a quarter of the length.
template <int K, class F>
static inline Sums<K> sums(int64_t n, F f) {
  Vec totals[4][K] = {};
  int64_t i = 0;
  for (; i + 4 * LANES <= n; i += 4 * LANES)
    for (int turn = 0; turn < 4; turn++) f(i + turn * LANES, Whole{}, totals[turn]);
  for (; i + LANES <= n; i += LANES) f(i, Whole{}, totals[0]);
  if (i < n) f(i, Part{n - i}, totals[1]);
  Sums<K> result;
  for (int k = 0; k < K; k++) result.of[k] = sum((totals[0][k] + totals[1][k]) + (totals[2][k] + totals[3][k]));
  return result;
}
