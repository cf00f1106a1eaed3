// C = A B (+ C) (+ bias) in float32, with A and B in either of their two orders in memory.
#pragma once
#include <cstdint>

// Element (i, j) is data[i * row + j * column]; one of the two strides is 1.
struct Matrix {
  const float* data;
  int64_t row, column;
};

// An array whose rows are `width` floats long, as it stands and turned.
static inline Matrix matrix(const float* data, int64_t width) { return {data, width, 1}; }
static inline Matrix transposed(const float* data, int64_t width) { return {data, 1, width}; }

struct Product {
  int64_t rows, columns, depth;
  Matrix a, b;                  // (rows, depth), (depth, columns)
  float* c;                     // (rows, columns), dense; overlaps nothing else
  const float* bias = nullptr;  // (columns,): added to every row
  float* row_sums = nullptr;    // (rows,): becomes the sums of A's rows
  bool accumulate = false;      // add to what is in C
};

// On all OpenMP threads. An element is summed in the same order whatever their number, so the bits are the same too.
void gemm(const Product& product);

// The same for A of a few rows, A and Bᵀ in rows of `depth` floats, no row sums: B is read once and not copied.
void gemm_few_rows(const Product& product);
