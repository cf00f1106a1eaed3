// Dropout of the elements of a matrix, which is its own gradient.
#include "keep.h"
#include "lanes.h"

OPERATOR(dropout) {  // x (…, columns), state, drop -> y
  if (call.count != 4) return WRONG_COUNT;
  for (int i = 0; i < 4; i++)
    if (!call.is(i, i == 1 || i == 2 ? "int32" : "float32")) return WRONG_DTYPE;
  if (!call.ranks[0] || !call.same_shape(0, 3) || !holds_keep(call, 1)) return WRONG_SHAPE;
  const Keep keep = Keep::read(call.at<int32_t>(1), call.at<int32_t>(2));
  const int64_t rows = call.rows(0), columns = call.dim(0, -1);
  const int64_t sequences = keep.shares > 1 ? call.dim(0, 0) : 1, each = rows > sequences ? rows / sequences : 1;
  const float* x = call.at(0);
  float* y = call.at(3);
#pragma omp parallel for schedule(static) if (rows * columns > PARALLEL)
  for (int64_t r = 0; r < rows; r++) {
    const Key<uint32_t> row = keep.row(keep.first_row(sequences, r / each, each) + (uint32_t)(r % each));
    const int64_t at = r * columns;
    walk(columns, [=](int64_t c, auto lanes) {
      const Vec kept = lanes.get(x + at + c) * keep.scale;
      lanes.put(y + at + c, choose(keep.along(row, c), kept, splat(0.f)));
    });
  }
  return OK;
}
