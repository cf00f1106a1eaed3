// Causal attention, forward: softmax by blocks of keys (arXiv:2205.14135), without a matrix of all scores.
//
// A block of queries lies across the lanes, one query a lane: the softmax over keys then goes down a column, and
// neither it nor the two products needs a reduction across lanes. Only the queries are transposed; keys and values are
// read as they lie.
#include <cfloat>
#include <cmath>

#include "attention_row.h"
#include "attention_shape.h"

namespace {

constexpr int64_t QUERIES = 128, KEYS = 128, COLUMNS = QUERIES / LANES;
constexpr int64_t FEW = 4;     // queries: up to so many are taken one by one
constexpr int64_t CHUNK = 16;  // keys, where some are hidden: hidden vectors are left out chunk by chunk

struct Attend {
  const Problem& p;
  In k, v;                           // of one key/value head: (S, D)
  Out q, sums, weights, room;        // (D, QUERIES), (D, QUERIES), (KEYS, QUERIES), (KEYS, D)
  int64_t columns;                   // vectors that hold queries
  Vec top[COLUMNS], total[COLUMNS];  // of each query so far: the largest score, the sum of 2^(score - largest)
  Key<Words> dice[COLUMNS];          // of each query, where weights are dropped

  Attend(const Problem& p, In k, In v) : p(p), k(k), v(v) {
    float* memory = scratch((2 * p.dim + KEYS) * QUERIES + KEYS * p.dim);
    q = {memory, QUERIES}, sums = q.from(p.dim), weights = sums.from(p.dim), room = {weights.from(KEYS).data, p.dim};
  }

  // Queries whose first one is row `first` of the scores.
  void start(In queries, int64_t rows, uint32_t first) {
    to_lanes(queries, q, rows, p.dim, p.scale * LOG2_E);
    std::fill_n(sums.data, p.dim * QUERIES, 0.f);
    columns = (rows + LANES - 1) / LANES;
    for (int c = 0; c < COLUMNS; c++) top[c] = splat(-FLT_MAX), total[c] = splat(0.f);
    if (p.keep.drops())
      for (int c = 0; c < COLUMNS; c++) dice[c] = p.keep.row(counted(first + c * LANES));
  }

  // Keys [key, key + n), all seen by all queries; the `next` ones after them are asked for meanwhile.
  void whole(int64_t key, int64_t n, int64_t next) {
    prefetch(k.from(key + n), next, p.dim);
    multiply<ACROSS, SET>(k.from(key), q, weights, n, columns, p.dim);
    for (int64_t c = 0; c < columns; c++) softmax(c, n);
    if (p.keep.drops())
      for (int64_t c = 0; c < columns; c++) drop(c, n, key);
    prefetch(v.from(key + n), next, p.dim);
    multiply<DOWN, ADD>(together(v.from(key), n, p.dim, room), weights, sums, p.dim, columns, n);
  }

  // Keys [key, key + n), of which queries see what the band shows.
  void edge(int64_t key, int64_t n, Band band) {
    for (int64_t j = 0; j < n; j += CHUNK) {
      const int64_t c = first_column(j, band), rows = std::min(CHUNK, n - j);
      const Out scores = weights.from(j, c * LANES);
      multiply<ACROSS, SET>(k.from(key + j), q.from(0, c * LANES), scores, rows, columns - c, p.dim);
    }
    for (int64_t c = 0; c < columns; c++) {
      const int64_t seen = rows_of(c, n, band);
      hide(c, seen, band);
      softmax(c, seen);
      if (p.keep.drops()) drop(c, seen, key);
    }
    for (int64_t j = 0; j < n; j += CHUNK) {
      const int64_t c = first_column(j, band), rows = std::min(CHUNK, n - j);
      const Out seen = weights.from(j, c * LANES);
      multiply<DOWN, ADD>(v.from(key + j), seen, sums.from(0, c * LANES), p.dim, columns - c, rows);
    }
  }

  // The first vector with a query that sees key j or one before.
  int64_t first_column(int64_t j, Band band) const { return clip((j - band.newest) / LANES, 0, columns); }

  // How many of n keys are in chunks that column c takes part in.
  int64_t rows_of(int64_t c, int64_t n, Band band) const {
    const int64_t last = c * LANES + LANES - 1 + band.newest;
    return last < 0 ? 0 : std::min(n, (last / CHUNK + 1) * CHUNK);
  }

  void hide(int64_t c, int64_t rows, Band band) {
    Ints query;
    for (int i = 0; i < LANES; i++) query[i] = c * LANES + i;
    const Ints newest = query + band.newest, oldest = query + band.oldest;
    for (int64_t j = 0; j < rows; j++) {
      float* at = weights.data + j * QUERIES + c * LANES;
      store(at, choose((newest >= (int32_t)j) & (oldest < (int32_t)j), load(at), splat(-INFINITY)));
    }
  }

  // Scores → weights, down one column.
  void softmax(int64_t c, int64_t rows) {
    float* column = weights.data + c * LANES;
    Vec high = top[c], sum = splat(0.f);
    for (int64_t j = 0; j < rows; j++) high = max(load(column + j * QUERIES), high);
    for (int64_t j = 0; j < rows; j++) {
      const Vec weight = exp2_negative(load(column + j * QUERIES) - high);
      store(column + j * QUERIES, weight);
      sum += weight;
    }
    rescale(c, high);
    total[c] += sum;
  }

  // Weights of one column from key `key` on; what is kept is made larger at the end, in `finish`.
  void drop(int64_t c, int64_t rows, int64_t key) {
    for (int64_t j = 0; j < rows; j++) {
      float* at = weights.data + j * QUERIES + c * LANES;
      store(at, choose(p.keep.across(dice[c], key + j), load(at), splat(0.f)));
    }
  }

  void rescale(int64_t c, Vec high) {
    const Vec decay = exp2_negative(top[c] - high);
    if (largest(high - top[c]) == 0.f) return;
    top[c] = high, total[c] *= decay;
    for (int64_t d = 0; d < p.dim; d++) {
      float* at = sums.data + d * QUERIES + c * LANES;
      store(at, load(at) * decay);
    }
  }

  // A query that sees nothing: 0, and a log-sum that makes 0 of every weight in the gradient. One whose scores are all
  // -inf has a sum of 0 too: NaN, in both directions.
  void finish(Out out, float* log_sum, int64_t begin, int64_t rows) {
    float inverse[QUERIES];
    for (int64_t i = 0; i < rows; i++) {
      const float sum = total[i / LANES][i % LANES];
      const bool nothing = sum == 0.f && p.sees_nothing(begin + i);
      inverse[i] = nothing ? 0.f : p.keep.scale / sum;
      log_sum[i] = nothing ? INFINITY : top[i / LANES][i % LANES] + std::log2(sum);
    }
    from_lanes(sums, out, p.dim, rows, inverse);
  }
};

void attend(const Problem& p, In q, In k, In v, Out out, float* log_sum, int64_t begin, int64_t end, uint32_t first) {
  Attend block(p, k, v);
  block.start(q, end - begin, first);
  prefetch(out, end - begin, p.dim);
  const Range some = p.seen_by(begin, end), all = p.seen_by_all(begin, end);
  const int64_t all_end = std::max(all.begin, all.end / CHUNK * CHUNK);  // the edge begins with a chunk
  for (int64_t key = some.begin, n; key < some.end; key += n) {
    const bool whole = key >= all.begin && key < all_end;
    const int64_t stop = key < std::min(all.begin, all_end) ? all.begin : whole ? all_end : some.end;
    n = std::min(KEYS, stop - key);
    whole ? block.whole(key, n, std::min(KEYS, some.end - key - n)) : block.edge(key, n, p.band(begin, key));
  }
  block.finish(out, log_sum, begin, end - begin);
}

void attend_few(const Problem& p, In q, In k, In v, Out out, float* log_sum, int64_t begin, int64_t end, uint32_t) {
  for (int64_t i = begin; i < end; i++) {
    const Range seen = p.seen_by(i, i + 1);
    const int64_t r = i - begin, n = seen.end - seen.begin;
    log_sum[r] = attend_row(p, q.from(r).data, k.from(seen.begin), v.from(seen.begin), n, out.from(r).data);
  }
}

void zero_rows(const Problem& p, int64_t b, int64_t h, Range rows, float* out, float* log_sum) {
  for (int64_t i = rows.begin; i < rows.end; i++) {
    std::fill_n(out + p.query_row(b, i, h), p.dim, 0.f);
    log_sum[p.sum_of(b, i, h)] = INFINITY;
  }
}

}  // namespace

// q, k, v, scale, window, offset, lengths, state, drop -> out (B, T, H, D), log2-sum-exp2 (B, H, T)
OPERATOR(attention) {
  Problem p;
  if (call.count != 11) return WRONG_COUNT;
  if (const int status = read_problem(call, p)) return status;
  if (!call.same_shape(9, 0) || call.size(10) != p.batch * p.heads * p.tokens) return WRONG_SHAPE;
  const float *q = call.at(0), *k = call.at(1), *v = call.at(2);
  float *out = call.at(9), *log_sum = call.at(10);
  const int64_t blocks = (p.tokens + QUERIES - 1) / QUERIES, pairs = p.batch * p.heads;
#pragma omp parallel for schedule(dynamic)
  for (int64_t task = 0; task < pairs * blocks; task++) {  // the last blocks see most: they come first
    const int64_t b = task % pairs / p.heads, h = task % p.heads, kv = h / p.group();
    const int64_t begin = (blocks - 1 - task / pairs) * QUERIES, end = std::min(begin + QUERIES, p.tokens);
    const int64_t live = clip(p.live(b), begin, end);
    zero_rows(p, b, h, {live, end}, out, log_sum);
    if (begin == live) continue;
    const int64_t query = p.query_row(b, begin, h), key = p.key_row(b, 0, kv), sum = p.sum_of(b, begin, h);
    const auto way = p.tokens <= FEW && p.dim % LANES == 0 && !p.keep.drops() ? attend_few : attend;
    way(p, {q + query, p.query_stride()}, {k + key, p.key_stride()}, {v + key, p.key_stride()},
        {out + query, p.query_stride()}, log_sum + sum, begin, live, p.dice_of(b, begin, h));
  }
  return OK;
}
