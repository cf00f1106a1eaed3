// Rotary positions: x (B, T, H, D), cos and sin (B or 1, T, R/2); the pair (x[i], x[i + R/2]) is turned, the rest copied.
#include "call.h"
#include "lanes.h"

static Status check(const Call& call) {  // x, cos, sin -> y
  if (call.count != 4) return WRONG_COUNT;
  if (!call.all_float32()) return WRONG_DTYPE;
  if (call.ranks[0] != 4 || call.ranks[1] != 3 || !call.same_shape(1, 2) || !call.same_shape(0, 3)) return WRONG_SHAPE;
  const bool one_row_each = call.dim(1, 0) == 1 || call.dim(1, 0) == call.dim(0, 0);
  const bool fits = call.dim(1, 1) == call.dim(0, 1) && 2 * call.dim(1, 2) <= call.dim(0, 3);
  return one_row_each && fits ? OK : WRONG_SHAPE;
}

// One head at one position: by the angle, or back by it.
template <bool BACK>
static void turn(const float* x, const float* cos, const float* sin, float* y, int64_t half, int64_t width) {
  walk(half, [=](int64_t i, auto lanes) {
    Vec c = lanes.get(cos + i), s = BACK ? -lanes.get(sin + i) : lanes.get(sin + i);
    Vec left = lanes.get(x + i), right = lanes.get(x + half + i);
    lanes.put(y + i, left * c - right * s);
    lanes.put(y + half + i, right * c + left * s);
  });
  memcpy(y + 2 * half, x + 2 * half, (width - 2 * half) * sizeof(float));
}

template <bool BACK>
static Status turn_all(const Call& call) {
  if (Status wrong = check(call)) return wrong;
  const int64_t tokens = call.dim(0, 0) * call.dim(0, 1), heads = call.dim(0, 2), width = call.dim(0, 3);
  const int64_t angles = call.rows(1), half = call.dim(1, -1);  // rows of cos: all tokens, or one sequence for every one
  const float *x = call.at(0), *cos = call.at(1), *sin = call.at(2);
  float* y = call.at(3);
#pragma omp parallel for schedule(static) if (call.size(0) > PARALLEL)
  for (int64_t token = 0; token < tokens; token++) {
    const int64_t angle = token % angles * half;
    for (int64_t head = token * heads; head < (token + 1) * heads; head++)
      turn<BACK>(x + head * width, cos + angle, sin + angle, y + head * width, half, width);
  }
  return OK;
}

OPERATOR(rope) { return turn_all<false>(call); }
OPERATOR(rope_grad) { return turn_all<true>(call); }  // dy, cos, sin -> dx: a rotation's transpose is its inverse
