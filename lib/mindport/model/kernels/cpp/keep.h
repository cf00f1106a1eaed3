// Which elements dropout keeps: a hash of where they are, so that a mask can be made again, anywhere and in any order.
// (../drop.py has the same in plain operators, bit for bit.)
#pragma once
#include <cstdint>

#include "call.h"
#include "simd.h"

typedef uint32_t Words __attribute__((vector_size(LANES * 4)));

// Two multiplications and three shifts (Wellons's lowbias32), keyed before the first and before the second.
// T is uint32_t or Words.
template <class T>
static inline T mix(T x, T a, T b) {
  x ^= a;
  x ^= x >> 16;
  x *= 0x7feb352du;
  x ^= x >> 15;
  x += b;
  x *= 0x846ca68bu;
  return x ^ (x >> 16);
}

// n, n + 1, …
static inline Words counted(int64_t n) {
  Words words;
  for (int i = 0; i < LANES; i++) words[i] = (uint32_t)(n + i);
  return words;
}

template <class T>
struct Key {
  T first, second;
};

struct Keep {
  Key<uint32_t> key;
  uint32_t threshold = 0;  // of 2^24: how many of the hashes are dropped
  float scale = 1.f;       // of what is kept: 1 / (1 - p)
  // Processes may share a batch, part by part, and the rows of each sequence, share by share.
  uint32_t part = 0, shares = 1, share = 0;

  // state: seed, passes so far; drop: place, threshold, part, shares, share. int32 (2,) and (5,).
  static Keep read(const int32_t* state, const int32_t* drop) {
    const uint32_t seed = state[0], passes = state[1], place = drop[0];
    const uint32_t first = mix(passes, seed, place);
    const float scale = (float)(16777216.0 / (16777216.0 - drop[1]));
    const Key<uint32_t> key{first, mix(place, first, seed)};
    return {key, (uint32_t)drop[1], scale, (uint32_t)drop[2], (uint32_t)drop[3], (uint32_t)drop[4]};
  }

  bool drops() const { return threshold > 0; }

  // The number among the rows of all processes of the first of `each` rows of sequence b of `sequences`.
  uint32_t first_row(int64_t sequences, int64_t b, int64_t each) const {
    return (uint32_t)(((part * sequences + b) * shares + share) * each);
  }

  template <class T>
  Key<T> row(T row) const {
    const T first = mix(row, T{} + key.first, T{} + key.second);
    return {first, mix(first, T{} + key.second, row)};
  }
  // The elements of a row from `column` on, a vector of them.
  Ints along(Key<uint32_t> row, int64_t column) const {
    return kept(mix(counted(column), Words{} + row.first, Words{} + row.second));
  }
  // One column of as many rows as there are lanes.
  Ints across(Key<Words> rows, int64_t column) const {
    return kept(mix(Words{} + (uint32_t)column, rows.first, rows.second));
  }

 private:
  Ints kept(Words hash) const { return (Ints)(hash >> 8) >= (int32_t)threshold; }
};

// Whether the arrays i and i + 1 are a state and a drop.
static inline bool holds_keep(const Call& call, int i) {
  if (call.size(i) != 2 || call.size(i + 1) != 5) return false;
  const int32_t *drop = call.at<int32_t>(i + 1), threshold = drop[1], part = drop[2], shares = drop[3], share = drop[4];
  return 0 <= threshold && threshold < 1 << 24 && part >= 0 && 0 <= share && share < shares;
}
