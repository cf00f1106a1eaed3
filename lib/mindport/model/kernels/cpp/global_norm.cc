// The Euclidean norm of many tensors taken as one vector.
#include <cmath>

#include "call.h"
#include "pieces.h"

// In double: a sum of float squares would overflow from 1e19 on, and lose digits over millions of elements.
static double squared(const float* x, int64_t n) {
  double total = 0;
#pragma omp simd reduction(+ : total)
  for (int64_t i = 0; i < n; i++) total += (double)x[i] * x[i];
  return total;
}

OPERATOR(global_norm) {  // n tensors of any shapes -> norm (1,)
  if (call.count < 2) return WRONG_COUNT;
  if (!call.all_float32()) return WRONG_DTYPE;
  const int last = call.count - 1;
  if (call.size(last) != 1) return WRONG_SHAPE;
  const std::vector<Piece> list = pieces(call, 0, last);
  std::vector<double> parts(list.size());
#pragma omp parallel for schedule(static)
  for (size_t i = 0; i < list.size(); i++) parts[i] = squared(call.at(list[i].tensor) + list[i].from, list[i].size);
  double total = 0;  // in the order of the pieces: the same number from run to run, by any number of threads
  for (const double part : parts) total += part;
  *call.at(last) = (float)std::sqrt(total);
  return OK;
}
