// Layer norm and root-mean-square norm over the last axis, forward and backward.
//
//   centred (layer norm)   x̂ = (x − mean) · rstd    y = weight · x̂ + bias         rstd = 1 / sqrt(var + eps)
//   not (RMS norm)         x̂ = x · rstd             y = (offset + weight) · x̂     rstd = 1 / sqrt(mean(x²) + eps)
//   backward               g = dy · weight          dx = rstd · (g − mean(g) − x̂ · mean(g x̂))   without mean(g) in RMS
//
// Only mean and rstd are kept for the backward pass: two floats a row.
#include <algorithm>
#include <cmath>
#include <initializer_list>

#include "call.h"
#include "lanes.h"
#include "scratch.h"

struct Moments {
  float mean, rstd;
};

// The second pass is over the deviations, and corrects the mean by theirs: a large mean costs no digits.
static Moments centred_moments(const float* x, int64_t d, float eps) {
  const float rough = sums<1>(d, [=](int64_t i, auto lanes, Vec* total) { total[0] += lanes.get(x + i); }).of[0] / d;
  auto rest = sums<2>(d, [=](int64_t i, auto lanes, Vec* total) {
    Vec away = lanes.get(x + i, rough) - rough;
    total[0] += away;
    total[1] += away * away;
  });
  const float shift = rest.of[0] / d;
  return {rough + shift, 1.f / std::sqrt(rest.of[1] / d - shift * shift + eps)};
}

static float rms_rstd(const float* x, int64_t d, float eps) {
  auto squares = sums<1>(d, [=](int64_t i, auto lanes, Vec* total) {
    Vec v = lanes.get(x + i);
    total[0] += v * v;
  });
  return 1.f / std::sqrt(squares.of[0] / d + eps);
}

// What both directions read: rows of d floats.
struct Rows {
  int64_t count, d;
  const float *x, *weight, *mean, *rstd;
  float offset;
};

struct Gradients {
  const float* dy;
  float *dx, *dweight, *dbias;
};

template <bool CENTRED>
static inline Vec normalised(const Rows& in, int64_t row, Vec x) {
  return (CENTRED ? x - in.mean[row] : x) * in.rstd[row];
}

// Work is cut into chunks by the number of rows alone, and a chunk's sums are added up in order: the gradients of
// weight and bias have the same bits with any number of threads.
const int64_t CHUNKS = 64, BLOCK = 4;

// dx of N rows, and their sum of dy · x̂ (and of dy) added to `partial`. N rows are summed before they are added:
// fewer roundings of a large sum, and fewer passes over it.
template <bool CENTRED, int64_t N>
static void block_grad(const Rows& in, const Gradients& out, int64_t first, float* partial) {
  const int64_t d = in.d;
  float inner[N], plain[N];  // mean(g x̂) and mean(g)
  for (int64_t r = 0; r < N; r++) {
    auto both = sums<CENTRED ? 2 : 1>(d, [&](int64_t i, auto lanes, Vec* total) {
      const int64_t at = (first + r) * d + i;
      Vec g = lanes.get(out.dy + at) * (lanes.get(in.weight + i) + in.offset);
      total[0] += g * normalised<CENTRED>(in, first + r, lanes.get(in.x + at));
      if (CENTRED) total[1] += g;
    });
    inner[r] = both.of[0] / d;
    plain[r] = CENTRED ? both.of[CENTRED ? 1 : 0] / d : 0.f;
  }
  walk(d, [&](int64_t i, auto lanes) {
    Vec weight = lanes.get(in.weight + i) + in.offset, dweight = {}, dbias = {};
    for (int64_t r = 0; r < N; r++) {
      const int64_t at = (first + r) * d + i;
      Vec dy = lanes.get(out.dy + at), x = normalised<CENTRED>(in, first + r, lanes.get(in.x + at));
      dweight += dy * x;
      dbias += dy;
      Vec g = dy * weight - x * inner[r];
      lanes.put(out.dx + at, (CENTRED ? g - plain[r] : g) * in.rstd[first + r]);
    }
    lanes.put(partial + i, lanes.get(partial + i) + dweight);
    if (CENTRED) lanes.put(partial + d + i, lanes.get(partial + d + i) + dbias);
  });
}

template <bool CENTRED>
static void chunk_grad(const Rows& in, const Gradients& out, int64_t first, int64_t end, float* partial) {
  std::fill_n(partial, (CENTRED ? 2 : 1) * in.d, 0.f);
  for (; first + BLOCK <= end; first += BLOCK) block_grad<CENTRED, BLOCK>(in, out, first, partial);
  for (; first < end; first++) block_grad<CENTRED, 1>(in, out, first, partial);
}

template <bool CENTRED>
static void norm_grad(const Rows& in, const Gradients& out) {
  const int64_t rows = (in.count + CHUNKS - 1) / CHUNKS, height = (rows + BLOCK - 1) / BLOCK * BLOCK;
  const int64_t chunks = height ? (in.count + height - 1) / height : 0, width = (CENTRED ? 2 : 1) * in.d;
  float* const partials = scratch(chunks * width);  // (chunks, width)
#pragma omp parallel for schedule(static) if (in.count * in.d > PARALLEL)
  for (int64_t chunk = 0; chunk < chunks; chunk++) {
    const int64_t first = chunk * height, end = first + height < in.count ? first + height : in.count;
    chunk_grad<CENTRED>(in, out, first, end, partials + chunk * width);
  }
  auto collect = [=](float* to, const float* from) {
    walk_in_threads(in.d, [=](int64_t i, auto lanes) {
      Vec total = {};
      for (int64_t chunk = 0; chunk < chunks; chunk++) total += lanes.get(from + chunk * width + i);
      lanes.put(to + i, total);
    });
  };
  collect(out.dweight, partials);
  if (CENTRED) collect(out.dbias, partials + in.d);
}

static bool is_vector(const Call& call, int i, int64_t n) { return call.ranks[i] == 1 && call.dim(i, 0) == n; }

// The shapes of x, of vectors like the last axis, and of one number a row.
static Status check(const Call& call, std::initializer_list<int> like_x, std::initializer_list<int> like_weight,
                    std::initializer_list<int> like_rows) {
  if (!call.all_float32()) return WRONG_DTYPE;
  if (call.ranks[0] < 1) return WRONG_SHAPE;
  for (int i : like_x)
    if (!call.same_shape(0, i)) return WRONG_SHAPE;
  for (int i : like_weight)
    if (!is_vector(call, i, call.dim(0, -1))) return WRONG_SHAPE;
  for (int i : like_rows)
    if (call.size(i) != call.rows(0)) return WRONG_SHAPE;
  return OK;
}

OPERATOR(rms_norm) {  // x (…, d), weight (d), (eps, offset) -> y, rstd (…)
  if (call.count != 5) return WRONG_COUNT;
  if (Status wrong = check(call, {3}, {1}, {4})) return wrong;
  if (!is_vector(call, 2, 2)) return WRONG_SHAPE;
  const int64_t rows = call.rows(0), d = call.dim(0, -1);
  const float *weight = call.at(1), eps = call.at(2)[0], offset = call.at(2)[1];
#pragma omp parallel for schedule(static) if (rows * d > PARALLEL)
  for (int64_t row = 0; row < rows; row++) {
    const float *x = call.at(0) + row * d, rstd = call.at(4)[row] = rms_rstd(x, d, eps);
    float* y = call.at(3) + row * d;
    walk(d, [=](int64_t i, auto lanes) {
      lanes.put(y + i, lanes.get(x + i) * rstd * (lanes.get(weight + i) + offset));
    });
  }
  return OK;
}

OPERATOR(rms_norm_grad) {  // x (…, d), weight (d), (eps, offset), rstd (…), dy (…, d) -> dx (…, d), dweight (d)
  if (call.count != 7) return WRONG_COUNT;
  if (Status wrong = check(call, {4, 5}, {1, 6}, {3})) return wrong;
  if (!is_vector(call, 2, 2)) return WRONG_SHAPE;
  const Rows in{call.rows(0), call.dim(0, -1), call.at(0), call.at(1), nullptr, call.at(3), call.at(2)[1]};
  norm_grad<false>(in, {call.at(4), call.at(5), call.at(6), nullptr});
  return OK;
}

OPERATOR(layer_norm) {  // x (…, d), weight (d), bias (d), (eps) -> y, mean (…), rstd (…)
  if (call.count != 7) return WRONG_COUNT;
  if (Status wrong = check(call, {4}, {1, 2}, {5, 6})) return wrong;
  if (!is_vector(call, 3, 1)) return WRONG_SHAPE;
  const int64_t rows = call.rows(0), d = call.dim(0, -1);
  const float *weight = call.at(1), *bias = call.at(2), eps = call.at(3)[0];
#pragma omp parallel for schedule(static) if (rows * d > PARALLEL)
  for (int64_t row = 0; row < rows; row++) {
    const float* x = call.at(0) + row * d;
    float* y = call.at(4) + row * d;
    const Moments its = centred_moments(x, d, eps);
    call.at(5)[row] = its.mean;
    call.at(6)[row] = its.rstd;
    walk(d, [=](int64_t i, auto lanes) {
      lanes.put(y + i, (lanes.get(x + i) - its.mean) * its.rstd * lanes.get(weight + i) + lanes.get(bias + i));
    });
  }
  return OK;
}

OPERATOR(layer_norm_grad) {  // x (…, d), weight (d), mean (…), rstd (…), dy (…, d) -> dx (…, d), dweight (d), dbias (d)
  if (call.count != 8) return WRONG_COUNT;
  if (Status wrong = check(call, {4, 5}, {1, 6, 7}, {2, 3})) return wrong;
  const Rows in{call.rows(0), call.dim(0, -1), call.at(0), call.at(1), call.at(2), call.at(3), 0.f};
  norm_grad<true>(in, {call.at(4), call.at(5), call.at(6), call.at(7)});
  return OK;
}
