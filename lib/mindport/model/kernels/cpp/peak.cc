// What this machine can reach: multiply-adds that wait for nothing, and our matrix product. These are not operators.
#include <omp.h>

#include <algorithm>
#include <chrono>
#include <vector>

#include "gemm.h"
#include "simd.h"

enum { CHAINS = 12, STEPS = 200000 };  // sums that do not wait for each other: enough for any latency

typedef std::chrono::steady_clock Clock;

static double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// One thread's loop. The numbers differ from lane to lane and stay near 10, so nothing of it can be left out.
static float fma_loop() {
  Vec sums[CHAINS], factor, term;
  for (int lane = 0; lane < LANES; lane++) factor[lane] = 0.99f - 1e-4f * lane, term[lane] = 0.1f + 1e-4f * lane;
  for (int i = 0; i < CHAINS; i++) sums[i] = term * (float)(i + 2);
  for (int step = 0; step < STEPS; step++)
#pragma GCC unroll 16
    for (int i = 0; i < CHAINS; i++) sums[i] = sums[i] * factor + term;
  float total = 0.f;
  for (int i = 0; i < CHAINS; i++) total += sum(sums[i]);
  return total;
}

// GFLOP/s of `threads` threads, the best of `repeats`.
extern "C" double fma_rate(int threads, int repeats) {
  double best = 0.;
  volatile float keep = 0.f;
  for (int r = 0; r < repeats; r++) {
    const Clock::time_point start = Clock::now();
    float total = 0.f;
#pragma omp parallel num_threads(threads) reduction(+ : total)
    total += fma_loop();
    best = std::max(best, 2e-9 * threads * CHAINS * LANES * STEPS / seconds_since(start));
    keep = total;
  }
  return best;
}

// GFLOP/s of A (rows, depth) times Bᵀ, B (columns, depth), the best of `repeats`.
extern "C" double gemm_rate(int64_t rows, int64_t columns, int64_t depth, int threads, int repeats) {
  std::vector<float> a(rows * depth), b(columns * depth), c(rows * columns);
  for (size_t i = 0; i < a.size(); i++) a[i] = (float)(i % 251) - 125.f;
  for (size_t i = 0; i < b.size(); i++) b[i] = (float)(i % 241) - 120.f;
  const int before = omp_get_max_threads();
  omp_set_num_threads(threads);
  double best = 0.;
  for (int r = 0; r < repeats; r++) {
    const Clock::time_point start = Clock::now();
    gemm({rows, columns, depth, matrix(a.data(), depth), transposed(b.data(), depth), c.data()});
    best = std::max(best, 2e-9 * rows * columns * depth / seconds_since(start));
  }
  omp_set_num_threads(before);
  return best;
}
