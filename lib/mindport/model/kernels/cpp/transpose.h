// A square of LANES × LANES floats, turned in registers.
#pragma once
#include <utility>

#include "simd.h"

// One step for rows that are DISTANCE apart: each lane whose DISTANCE bit is set is exchanged with the other row.
template <int DISTANCE, int... LANE>
static inline void exchange(Vec& upper, Vec& lower, std::integer_sequence<int, LANE...>) {
#if defined(__clang__)
  Vec a = __builtin_shufflevector(upper, lower, (LANE & DISTANCE ? LANES + LANE - DISTANCE : LANE)...);
  Vec b = __builtin_shufflevector(upper, lower, (LANE & DISTANCE ? LANES + LANE : LANE + DISTANCE)...);
#else
  Vec a = __builtin_shuffle(upper, lower, (Ints){(LANE & DISTANCE ? LANES + LANE - DISTANCE : LANE)...});
  Vec b = __builtin_shuffle(upper, lower, (Ints){(LANE & DISTANCE ? LANES + LANE : LANE + DISTANCE)...});
#endif
  upper = a, lower = b;
}

template <int DISTANCE = LANES / 2>
static inline void transpose(Vec (&rows)[LANES]) {
#pragma GCC unroll 16
  for (int i = 0; i < LANES; i++)
    if (!(i & DISTANCE)) exchange<DISTANCE>(rows[i], rows[i + DISTANCE], std::make_integer_sequence<int, LANES>());
  if constexpr (DISTANCE > 1) transpose<DISTANCE / 2>(rows);
}
