// Cross entropy of rows of logits, averaged over the labels that count, and its gradient. No probability is stored:
// the gradient makes them again from the largest logit of a row and the logarithm of its sum.
#include <cfloat>
#include <cmath>

#include "call.h"
#include "simd.h"

static const int64_t BLOCK = 1024;  // floats, read twice: the second time from the nearest cache

static float top_of(const float* x, int64_t n, float top) {
  Vec tops = splat(top);
  int64_t i = 0;
  for (; i + LANES <= n; i += LANES) tops = max(load(x + i), tops);
  if (i < n) tops = max(load_part(x + i, n - i, -INFINITY), tops);
  return largest(tops);
}

static float sum_of_exp(const float* x, int64_t n, float top) {
  Vec sums = {};
  int64_t i = 0;
  for (; i + LANES <= n; i += LANES) sums += exp(load(x + i) - top);
  if (i < n) sums += exp(load_part(x + i, n - i, -INFINITY) - top);
  return sum(sums);
}

// One pass: where a block has a larger logit than those before it, their sum is scaled down. top starts above −inf,
// from which nothing could be subtracted. Two numbers, since x − top is exact for the logits that matter.
static void log_sum_exp(const float* x, int64_t n, float* saved) {
  float top = -FLT_MAX;
  double total = 0;
  for (int64_t at = 0; at < n; at += BLOCK) {
    const int64_t size = n - at < BLOCK ? n - at : BLOCK;
    const float higher = top_of(x + at, size, top);
    total = total * std::exp((double)top - higher) + sum_of_exp(x + at, size, higher);
    top = higher;
  }
  saved[0] = top;
  saved[1] = (float)std::log(total);
}

// dx = softmax(x) · scale.
static void softmax(const float* x, const float* saved, float scale, float* dx, int64_t n) {
  const float top = saved[0], log_sum = saved[1];
  int64_t i = 0;
  for (; i + LANES <= n; i += LANES) store(dx + i, scale * exp(load(x + i) - top - log_sum));
  if (i < n) store_part(dx + i, scale * exp(load_part(x + i, n - i) - top - log_sum), n - i);
}

// (softmax of each row that counts − onehot(label)) · scale, of the classes from `first` on; labels are of all classes.
static void gradient(const Call& call, const float* saved, float scale, int32_t first, float* out) {
  const float* logits = call.at(0);
  const int32_t *labels = call.at<int32_t>(1), ignored = *call.at<int32_t>(2);
  const int64_t rows = call.dim(0, 0), classes = call.dim(0, 1);
#pragma omp parallel for schedule(static)
  for (int64_t r = 0; r < rows; r++) {
    float* dx = out + r * classes;
    const int64_t label = (int64_t)labels[r] - first;
    if (labels[r] == ignored) memset(dx, 0, classes * sizeof(float));
    else softmax(logits + r * classes, saved + 2 * r, scale, dx, classes);
    if (labels[r] != ignored && label >= 0 && label < classes) dx[label] -= scale;
  }
}

// How many labels count; −1 when one of them is no class.
static int64_t counted(const int32_t* labels, int64_t rows, int32_t ignored, int64_t classes) {
  int64_t count = 0;
  for (int64_t r = 0; r < rows; r++) {
    if (labels[r] == ignored) continue;
    if (labels[r] < 0 || labels[r] >= classes) return -1;
    count++;
  }
  return count;
}

// Checks what the operators begin with: logits (N, V), labels (N,), ignored (1,), and `integers` arrays of int32 in all.
static int check(const Call& call, int count, int integers = 2) {
  if (call.count != count) return WRONG_COUNT;
  for (int i = 0; i < count; i++)
    if (!call.is(i, 1 <= i && i <= integers ? "int32" : "float32")) return WRONG_DTYPE;
  const bool shaped = call.ranks[0] == 2 && call.ranks[1] == 1 && call.dim(0, 0) == call.dim(1, 0);
  return shaped && call.size(2) == 1 ? OK : WRONG_SHAPE;
}

static bool holds_pairs(const Call& call, int i) {
  return call.ranks[i] == 2 && call.dim(i, 0) == call.dim(0, 0) && call.dim(i, 1) == 2;
}

OPERATOR(cross_entropy) {  // logits (N, V), labels (N,), ignored (1,) -> mean (1,), [top, log of the sum] (N, 2)
  if (const int wrong = check(call, 5)) return wrong;
  if (call.size(3) != 1 || !holds_pairs(call, 4)) return WRONG_SHAPE;
  const float* logits = call.at(0);
  const int32_t *labels = call.at<int32_t>(1), ignored = *call.at<int32_t>(2);
  float* saved = call.at(4);
  const int64_t rows = call.dim(0, 0), classes = call.dim(0, 1), count = counted(labels, rows, ignored, classes);
  if (count < 0) return WRONG_LABEL;
#pragma omp parallel for schedule(static)
  for (int64_t r = 0; r < rows; r++)
    if (labels[r] != ignored) log_sum_exp(logits + r * classes, classes, saved + 2 * r);
  double total = 0;  // by one thread: the sum of several could differ from run to run
  for (int64_t r = 0; r < rows; r++)
    if (labels[r] != ignored) total += saved[2 * r + 1] + ((double)saved[2 * r] - logits[r * classes + labels[r]]);
  *call.at(3) = (float)(total / count);
  return OK;
}

OPERATOR(cross_entropy_grad) {  // logits (N, V), labels (N,), ignored (1,), saved (N, 2), dmean (1,) -> dlogits (N, V)
  if (const int wrong = check(call, 6)) return wrong;
  if (!holds_pairs(call, 3) || call.size(4) != 1 || !call.same_shape(0, 5)) return WRONG_SHAPE;
  const int32_t *labels = call.at<int32_t>(1), ignored = *call.at<int32_t>(2);
  const int64_t rows = call.dim(0, 0), count = counted(labels, rows, ignored, call.dim(0, 1));
  if (count < 0) return WRONG_LABEL;
  const float scale = *call.at(4) / count;
  gradient(call, call.at(3), scale, 0, call.at(5));
  return OK;
}

// Where ranks share the classes, each has those from `first` on, of `all`; what it says of a row is put together with
// what the others say.

static bool holds_share(const Call& call) {
  if (call.size(3) != 2) return false;
  const int32_t first = call.at<int32_t>(3)[0], all = call.at<int32_t>(3)[1];
  return first >= 0 && first + call.dim(0, 1) <= all;
}

// logits (N, v), labels (N,), ignored (1,), [first, all] (2,) -> [top, log of the sum, logit of the label or 0] (N, 3)
OPERATOR(cross_entropy_share) {
  if (const int wrong = check(call, 5, 3)) return wrong;
  if (!holds_share(call) || call.ranks[4] != 2 || call.dim(4, 0) != call.dim(0, 0) || call.dim(4, 1) != 3)
    return WRONG_SHAPE;
  const float* logits = call.at(0);
  const int32_t *labels = call.at<int32_t>(1), ignored = *call.at<int32_t>(2);
  const int32_t first = call.at<int32_t>(3)[0], all = call.at<int32_t>(3)[1];
  const int64_t rows = call.dim(0, 0), classes = call.dim(0, 1);
  if (counted(labels, rows, ignored, all) < 0) return WRONG_LABEL;
  float* out = call.at(4);
#pragma omp parallel for schedule(static)
  for (int64_t r = 0; r < rows; r++) {
    float* said = out + 3 * r;
    const int64_t label = (int64_t)labels[r] - first;
    said[0] = said[1] = said[2] = 0.f;
    if (labels[r] == ignored) continue;
    log_sum_exp(logits + r * classes, classes, said);
    if (label >= 0 && label < classes) said[2] = logits[r * classes + label];
  }
  return OK;
}

// logits, labels, ignored, [first, all], [top, log of the sum] over all ranks (N, 2), dmean (1,) -> dlogits (N, v)
OPERATOR(cross_entropy_share_grad) {
  if (const int wrong = check(call, 7, 3)) return wrong;
  if (!holds_share(call) || !holds_pairs(call, 4) || call.size(5) != 1 || !call.same_shape(0, 6)) return WRONG_SHAPE;
  const int32_t *labels = call.at<int32_t>(1), ignored = *call.at<int32_t>(2), *share = call.at<int32_t>(3);
  const int64_t count = counted(labels, call.dim(0, 0), ignored, share[1]);
  if (count < 0) return WRONG_LABEL;
  gradient(call, call.at(4), *call.at(5) / count, share[0], call.at(6));
  return OK;
}
