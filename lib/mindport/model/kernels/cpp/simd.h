// Vectors of floats by the compiler's own vector extensions: one source for AVX-512, AVX2, NEON and plain SSE.
#pragma once
#include <cstdint>
#include <cstring>

#if defined(__AVX512F__)
#define LANES 16
#elif defined(__AVX__)
#define LANES 8
#else
#define LANES 4
#endif

typedef float Vec __attribute__((vector_size(LANES * 4)));
typedef int32_t Ints __attribute__((vector_size(LANES * 4)));  // also what a comparison of two Vec gives: 0 or -1
typedef float Unaligned __attribute__((vector_size(LANES * 4), aligned(4)));

static inline Vec splat(float x) { return (Vec){} + x; }
static inline Vec load(const float* p) { return *(const Unaligned*)p; }
static inline void store(float* p, Vec x) { *(Unaligned*)p = x; }

// The first n < LANES floats; the rest of the vector is `rest`, and memory beyond is neither read nor written.
static inline Vec load_part(const float* p, int64_t n, float rest = 0.f) {
  Vec x = splat(rest);
  memcpy(&x, p, n * sizeof(float));
  return x;
}
static inline void store_part(float* p, Vec x, int64_t n) { memcpy(p, &x, n * sizeof(float)); }

static inline Vec as_floats(Ints x) { return (Vec)x; }  // the bits
static inline Ints as_ints(Vec x) { return (Ints)x; }
static inline Vec to_floats(Ints x) { return __builtin_convertvector(x, Vec); }  // the numbers
static inline Ints to_ints(Vec x) { return __builtin_convertvector(x, Ints); }

static inline Vec choose(Ints mask, Vec yes, Vec no) { return mask ? yes : no; }
static inline Vec max(Vec a, Vec b) { return choose(a > b, a, b); }  // b when either is NaN
static inline Vec min(Vec a, Vec b) { return choose(a < b, a, b); }

template <int N>
struct Wide {
  typedef float type __attribute__((vector_size(N * 4)));
};

// By halves, so log2(N) additions one after the other; through a union, which stays in registers.
template <int N>
static inline float sum_halves(typename Wide<N>::type x) {
  if constexpr (N == 2) {
    return x[0] + x[1];
  } else {
    union {
      typename Wide<N>::type whole;
      typename Wide<N / 2>::type half[2];
    } both = {x};
    return sum_halves<N / 2>(both.half[0] + both.half[1]);
  }
}
static inline float sum(Vec x) { return sum_halves<LANES>(x); }
static inline float largest(Vec x) {
  float top = x[0];
  for (int i = 1; i < LANES; i++) top = x[i] > top ? x[i] : top;
  return top;
}

// e^x = p · 2^k for −87.3 < x < 88.7, p within 9e-8 of itself. NaN gives a p of NaN.
static inline Vec exp_parts(Vec x, Ints* k) {
  const float round = 12582912.f;  // 1.5 * 2^23: adding it leaves the nearest whole number in the low bits
  Vec shifted = x * 1.44269504f + round;
  Vec n = shifted - round;
  Vec r = (x - n * 0.693359375f) + n * 2.12194440e-4f;  // ln 2 in two parts
  Vec p = splat(1.9875691500e-4f);  // Cephes expf
  p = p * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  *k = as_ints(shifted) - as_ints(splat(round));
  return p * r * r + r + 1.f;
}

static inline Vec within(Vec x, float low, float high) {  // NaN stays
  return choose(x < low, splat(low), choose(x > high, splat(high), x));
}

// 0 below -87.3, where a float becomes denormal, inf above 88.7; NaN stays.
static inline Vec exp(Vec x) {
  Ints k;
  Vec p = exp_parts(within(x, -87.33654f, 88.72283f), &k);
  Ints half = k >> 1;  // 2^k in two steps: 2^128 is not a float
  p = p * as_floats((half + 127) << 23) * as_floats((k - half + 127) << 23);
  p = choose(x < -87.33654f, splat(0.f), p);
  p = choose(x > 88.72283f, splat(__builtin_inff()), p);
  return choose(x != x, x, p);
}

// The same where its ends do not matter: no less than 1.3e-38, no more than 1.6e38.
static inline Vec exp_inside(Vec x) {
  Ints k;
  Vec p = exp_parts(within(x, -87.33654f, 88.f), &k);
  return p * as_floats((k + 127) << 23);
}

// 2^x for x <= 0 within 2.5e-7 of itself: for softmax, whose largest exponent is 0. Below 2^-126 it fades to exactly 0
// at -127, where the bits of 2^0 and of the shift cancel; NaN stays.
static inline Vec exp2_negative(Vec x) {
  const float round = 12582912.f;
  Vec clipped = choose(x < -127.f, splat(-127.f), x);
  Vec shifted = clipped + round;
  Vec r = clipped - (shifted - round);
  Vec p = splat(1.3276472e-3f);  // minimax on [-1/2, 1/2], relative error 7.5e-8
  p = p * r + 9.6755410e-3f;
  p = p * r + 5.5507131e-2f;
  p = p * r + 2.4022120e-1f;
  p = p * r + 6.9314694e-1f;
  p = p * r + 1.f;
  return as_floats(as_ints(p) + (as_ints(shifted) << 23));
}

// Exactly 0 where exp_inside has its end: what is left there, times an x of 1e38, would be a number to be seen.
static inline Vec sigmoid(Vec x) { return choose(x < -87.f, splat(0.f), 1.f / (1.f + exp_inside(-x))); }
