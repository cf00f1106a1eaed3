// Small matrix products in registers, and the transposition of small matrices.
#pragma once
#include <algorithm>

#include "simd.h"
#include "transpose.h"

struct In {
  const float* data;
  int64_t stride;  // from row to row, in floats
  In from(int64_t row, int64_t column = 0) const { return {data + row * stride + column, stride}; }
};
struct Out {
  float* data;
  int64_t stride;
  Out from(int64_t row, int64_t column = 0) const { return {data + row * stride + column, stride}; }
  operator In() const { return {data, stride}; }
};

// A tile of the product that stays in registers: 24 of 32 with AVX-512 and NEON, 12 of 16 with AVX2.
#if LANES == 16 || defined(__aarch64__)
constexpr int ROWS = 6, VECTORS = 4;
#else
constexpr int ROWS = 6, VECTORS = 2;
#endif

enum Reading { ACROSS, DOWN };  // a (rows, depth) is stored so, or as (depth, rows)
enum Writing { SET, ADD };

template <int R, int V, Reading READING, Writing WRITING>
static inline void tile(In a, In b, Out c, int64_t depth) {
  Vec sums[R][V];
#pragma GCC unroll 6
  for (int r = 0; r < R; r++)
#pragma GCC unroll 4
    for (int v = 0; v < V; v++) sums[r][v] = WRITING == ADD ? load(c.data + r * c.stride + v * LANES) : splat(0.f);
  for (int64_t k = 0; k < depth; k++) {
    Vec row[V];
#pragma GCC unroll 4
    for (int v = 0; v < V; v++) row[v] = load(b.data + k * b.stride + v * LANES);
#pragma GCC unroll 6
    for (int r = 0; r < R; r++) {
      const Vec x = splat(READING == DOWN ? a.data[k * a.stride + r] : a.data[r * a.stride + k]);
#pragma GCC unroll 4
      for (int v = 0; v < V; v++) sums[r][v] += x * row[v];
    }
  }
#pragma GCC unroll 6
  for (int r = 0; r < R; r++)
#pragma GCC unroll 4
    for (int v = 0; v < V; v++) store(c.data + r * c.stride + v * LANES, sums[r][v]);
}

// The last rows, fewer than ROWS: R of them or fewer.
template <int R, int V, Reading READING, Writing WRITING>
static inline void last_rows(In a, In b, Out c, int64_t rows, int64_t depth) {
  if constexpr (R > 0) {
    if (rows == R) return tile<R, V, READING, WRITING>(a, b, c, depth);
    last_rows<R - 1, V, READING, WRITING>(a, b, c, rows, depth);
  }
}

// V vectors wide, or fewer.
template <int V, Reading READING, Writing WRITING>
static void strip(In a, In b, Out c, int64_t rows, int64_t vectors, int64_t depth) {
  if constexpr (V > 0) {
    if (vectors < V) return strip<V - 1, READING, WRITING>(a, b, c, rows, vectors, depth);
    int64_t r = 0;
    for (; r + ROWS <= rows; r += ROWS) {
      const In part = READING == DOWN ? a.from(0, r) : a.from(r);
      tile<ROWS, V, READING, WRITING>(part, b, c.from(r), depth);
    }
    const In part = READING == DOWN ? a.from(0, r) : a.from(r);
    last_rows<ROWS - 1, V, READING, WRITING>(part, b, c.from(r), rows - r, depth);
  }
}

// c (rows, vectors of LANES) = or += a (rows, depth) · b (depth, vectors of LANES)
template <Reading READING, Writing WRITING>
static void multiply(In a, In b, Out c, int64_t rows, int64_t vectors, int64_t depth) {
  for (int64_t v = 0; v < vectors; v += VECTORS) {
    const int64_t width = std::min<int64_t>(VECTORS, vectors - v);
    strip<VECTORS, READING, WRITING>(a, b.from(0, v * LANES), c.from(0, v * LANES), rows, width, depth);
  }
}

// Asks for rows that are needed soon: they lie too far apart for the CPU to guess.
static inline void prefetch(In in, int64_t rows, int64_t columns) {
  for (int64_t r = 0; r < rows; r++)
    for (int64_t c = 0; c < columns; c += 16) __builtin_prefetch(in.data + r * in.stride + c);
}

// Rows whole pages apart would crowd into a few sets of the cache: they are copied to `room`. Others stay as they lie.
static inline In together(In rows, int64_t count, int64_t columns, Out room) {
  if (rows.stride % 1024 != 0) return rows;
  for (int64_t r = 0; r < count; r++) std::copy_n(rows.from(r).data, columns, room.from(r).data);
  return room;
}

// A square of `in` of at most LANES × LANES: (rows, columns) → `square`, transposed; 0 beyond.
static inline void load_transposed(In in, int64_t rows, int64_t columns, Vec (&square)[LANES]) {
  for (int r = 0; r < LANES; r++) {
    const float* row = in.data + r * in.stride;
    square[r] = r >= rows ? splat(0.f) : columns < LANES ? load_part(row, columns) : load(row);
  }
  transpose(square);
}

// out (columns, rows filled up with 0 to whole vectors) = factor · in (rows, columns)ᵀ
static void to_lanes(In in, Out out, int64_t rows, int64_t columns, float factor) {
  Vec square[LANES];
  for (int64_t r = 0; r < rows; r += LANES)
    for (int64_t c = 0; c < columns; c += LANES) {
      const int64_t width = std::min<int64_t>(LANES, columns - c);
      load_transposed(in.from(r, c), rows - r, width, square);
      for (int i = 0; i < width; i++) store(out.data + (c + i) * out.stride + r, square[i] * factor);
    }
}

// out (columns, rows) = in (rows, columns in whole vectors)ᵀ, column c of `in` times factors[c]
static void from_lanes(In in, Out out, int64_t rows, int64_t columns, const float* factors) {
  Vec square[LANES];
  for (int64_t r = 0; r < rows; r += LANES)
    for (int64_t c = 0; c < columns; c += LANES) {
      const int64_t width = std::min<int64_t>(LANES, rows - r), height = std::min<int64_t>(LANES, columns - c);
      load_transposed(in.from(r, c), width, LANES, square);
      for (int i = 0; i < height; i++) {
        float* row = out.data + (c + i) * out.stride + r;
        const Vec x = square[i] * factors[c + i];
        width < LANES ? store_part(row, x, width) : store(row, x);
      }
    }
}
