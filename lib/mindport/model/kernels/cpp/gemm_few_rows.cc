// A few rows, as in decoding: every element of B is used a few times only, so it is taken where it lies.
#include <algorithm>

#include "gemm.h"
#include "simd.h"

enum { ROWS = 4, COLUMNS = LANES == 16 ? 4 : 2, SMALL = 1 << 16 };  // sums in registers: ROWS × COLUMNS

// c[i][j] = aᵢ · bⱼ for HEIGHT rows and WIDTH columns.
template <int HEIGHT, int WIDTH>
static void dots(const Product& p, int64_t row, int64_t column) {
  Vec sums[HEIGHT][WIDTH] = {};
  for (int64_t d = 0; d < p.depth; d += LANES) {
    const int64_t n = p.depth - d;
    Vec left[HEIGHT];
    for (int i = 0; i < HEIGHT; i++) {
      const float* a = p.a.data + (row + i) * p.a.row + d;
      left[i] = n < LANES ? load_part(a, n) : load(a);
    }
    for (int j = 0; j < WIDTH; j++) {
      const float* b = p.b.data + (column + j) * p.b.column + d;
      const Vec right = n < LANES ? load_part(b, n) : load(b);
      for (int i = 0; i < HEIGHT; i++) sums[i][j] += left[i] * right;
    }
  }
  for (int i = 0; i < HEIGHT; i++)
    for (int j = 0; j < WIDTH; j++) {
      const float value = sum(sums[i][j]) + (p.bias ? p.bias[column + j] : 0.f);
      float& c = p.c[(row + i) * p.columns + column + j];
      c = p.accumulate ? c + value : value;
    }
}

template <int HEIGHT, int WIDTH>
static void some_dots(const Product& p, int64_t row, int64_t column, int64_t height, int64_t width) {
  if constexpr (HEIGHT > 1)
    if (height < HEIGHT) return some_dots<HEIGHT - 1, WIDTH>(p, row, column, height, width);
  if constexpr (WIDTH > 1)
    if (width < WIDTH) return some_dots<HEIGHT, WIDTH - 1>(p, row, column, height, width);
  dots<HEIGHT, WIDTH>(p, row, column);
}

void gemm_few_rows(const Product& p) {
#pragma omp parallel for schedule(static) if (p.rows * p.columns * p.depth >= SMALL)
  for (int64_t j = 0; j < p.columns; j += COLUMNS)
    for (int64_t i = 0; i < p.rows; i += ROWS)
      some_dots<ROWS, COLUMNS>(p, i, j, std::min<int64_t>(ROWS, p.rows - i),
                               std::min<int64_t>(COLUMNS, p.columns - j));
}
