// Causal attention, backward: the weights are computed again, block by block, from the saved log-sum.
//
// A block of keys lies across the lanes. Its gradients of k and v stay in one thread's scratch while it goes over the
// queries that see it. The gradient of q is a sum over blocks of keys; each adds its share when it is its turn, so the
// order of additions, and every bit of the result, is the same for any number of threads.
#include <atomic>
#include <thread>
#include <vector>

#include "attention_shape.h"

namespace {

constexpr int64_t QUERIES = 64, KEYS = 128, COLUMNS = KEYS / LANES;
constexpr int64_t CHUNK = 24;  // queries, where some keys are hidden: hidden vectors are left out chunk by chunk

struct Tensors {
  const float *q, *k, *v, *out, *log_sum, *d_out;
  float *d_q, *d_k, *d_v;
};

// For each head and block of queries, which block of keys may add to its gradient next.
class Turns {
 public:
  explicit Turns(const Problem& p) : blocks((p.tokens + QUERIES - 1) / QUERIES), next(p.batch * p.heads * blocks) {
    for (int64_t b = 0, i = 0; b < p.batch; b++)
      for (int64_t h = 0; h < p.heads; h++)
        for (int64_t m = 0; m < blocks; m++) {
          const int64_t begin = m * QUERIES, end = std::min(begin + QUERIES, p.live(b));
          next[i++] = p.seen_by(begin, end).begin / KEYS;
        }
  }
  void await(int64_t head, int64_t m, int64_t n) {
    while (next[head * blocks + m].load(std::memory_order_acquire) != n) std::this_thread::yield();
  }
  void pass(int64_t head, int64_t m, int64_t n) { next[head * blocks + m].store(n + 1, std::memory_order_release); }

 private:
  int64_t blocks;
  std::vector<std::atomic<int64_t>> next;
};

// A block of queries of one head: their rows, and the rows of what is known of them.
struct Queries {
  In q, d_out;                   // (count, D)
  const float *log_sum, *delta;  // (count,)
  int64_t count;
  uint32_t first;  // row of the scores
};

// A block of keys of one key/value head.
struct Keys {
  const Problem& p;
  const int64_t padded;                      // D in whole vectors
  Out k_lanes, v_lanes, dk_lanes, dv_lanes;  // (D, KEYS)
  Out weights, d_scores;                     // (QUERIES, KEYS)
  Out k_rows, d_q;                           // (KEYS, padded), (QUERIES, padded)
  int64_t begin, count;

  explicit Keys(const Problem& p) : p(p), padded((p.dim + LANES - 1) / LANES * LANES) {
    float* memory = scratch(4 * p.dim * KEYS + 2 * QUERIES * KEYS + (KEYS + QUERIES) * padded);
    for (Out* lanes : {&k_lanes, &v_lanes, &dk_lanes, &dv_lanes}) *lanes = {memory, KEYS}, memory += p.dim * KEYS;
    for (Out* rows : {&weights, &d_scores}) *rows = {memory, KEYS}, memory += QUERIES * KEYS;
    k_rows = {memory, padded}, d_q = k_rows.from(KEYS);
  }

  void start(In k, In v, int64_t first, int64_t n) {
    begin = first, count = n;
    to_lanes(k, k_lanes, n, p.dim, p.scale * LOG2_E);
    to_lanes(v, v_lanes, n, p.dim, 1.f);
    for (int64_t j = 0; j < n; j++) {
      float* row = k_rows.from(j).data;
      for (int64_t d = 0; d < p.dim; d++) row[d] = p.scale * k.from(j).data[d];
      std::fill(row + p.dim, row + padded, 0.f);
    }
    std::fill_n(dk_lanes.data, p.dim * KEYS, 0.f);
    std::fill_n(dv_lanes.data, p.dim * KEYS, 0.f);
  }

  // Adds what these queries give to the gradients of k and v, and leaves in d_q what these keys give to theirs.
  void take(const Queries& of, Band band) {
    const int64_t all = (count + LANES - 1) / LANES;
    if (!band.hides(of.count, count)) return chunk(of, 0, of.count, all, nullptr);
    for (int64_t i = 0; i < of.count; i += CHUNK) {
      const int64_t n = std::min(CHUNK, of.count - i), newest = i + n - 1 + band.newest;
      chunk(of, i, n, newest < 0 ? 0 : std::min(all, newest / LANES + 1), &band);
    }
  }

  // The queries [i, i + n), which see keys in `columns` vectors only.
  void chunk(const Queries& of, int64_t i, int64_t n, int64_t columns, const Band* band) {
    const In q = of.q.from(i), d_out = of.d_out.from(i);
    multiply<ACROSS, SET>(q, k_lanes, weights.from(i), n, columns, p.dim);
    multiply<ACROSS, SET>(d_out, v_lanes, d_scores.from(i), n, columns, p.dim);
    const bool drops = p.keep.drops();
    for (int64_t r = i; r < i + n; r++) drops ? row<true>(of, r, columns, band) : row<false>(of, r, columns, band);
    multiply<DOWN, ADD>(d_out, weights.from(i), dv_lanes, p.dim, columns, n);
    multiply<DOWN, ADD>(q, d_scores.from(i), dk_lanes, p.dim, columns, n);
    const int64_t seen = std::min(count, columns * LANES);
    multiply<ACROSS, SET>(d_scores.from(i), k_rows, d_q.from(i), n, padded / LANES, seen);
  }

  // Scores and gradients of the dropped weights of query r → weights as they were dropped, and gradients of the scores.
  template <bool DROPS>
  void row(const Queries& of, int64_t r, int64_t columns, const Band* band) {
    const float log_sum = of.log_sum[r], delta = of.delta[r];
    Key<uint32_t> dice{};
    if constexpr (DROPS) dice = p.keep.row(of.first + (uint32_t)r);
    for (int64_t c = 0; c < columns; c++) {
      float *weight = weights.from(r, c * LANES).data, *d_score = d_scores.from(r, c * LANES).data;
      const Vec power = load(weight) - log_sum;  // above 0 by rounding only, which in a score of 1e9 can be anything
      Vec w = exp2_negative(choose(power > 0.f, splat(0.f), power));
      if (band) w = choose(shown(r, c, *band), w, splat(0.f));
      Vec dropped = w, given = load(d_score);
      if constexpr (DROPS) {
        const Ints kept = p.keep.along(dice, begin + c * LANES);
        dropped = choose(kept, w * p.keep.scale, splat(0.f));
        given = choose(kept, given * p.keep.scale, splat(0.f));
      }
      store(weight, dropped);
      store(d_score, w * (given - delta));
    }
  }

  static Ints shown(int64_t r, int64_t c, Band band) {
    Ints key;
    for (int i = 0; i < LANES; i++) key[i] = c * LANES + i;
    return (key <= (int32_t)(band.newest + r)) & (key > (int32_t)(band.oldest + r));
  }

  void add_d_q(Out to, int64_t rows) {
    for (int64_t i = 0; i < rows; i++)
      for (int64_t d = 0; d < p.dim; d++) to.from(i).data[d] += d_q.from(i).data[d];
  }

  void finish(Out d_k, Out d_v) {
    float factors[KEYS];
    std::fill_n(factors, KEYS, p.scale);
    from_lanes(dk_lanes, d_k, p.dim, count, factors);
    std::fill_n(factors, KEYS, 1.f);
    from_lanes(dv_lanes, d_v, p.dim, count, factors);
  }
};

// What the gradient of every score of a query is lowered by: the sum of out · d_out.
void prepare(const Problem& p, const Tensors& t, float* delta) {
#pragma omp parallel for schedule(static)
  for (int64_t row = 0; row < p.batch * p.tokens * p.heads; row++) {
    const int64_t h = row % p.heads, i = row / p.heads % p.tokens, b = row / p.heads / p.tokens;
    const float *out = t.out + row * p.dim, *d_out = t.d_out + row * p.dim;
    float sum = 0.f;
    for (int64_t d = 0; d < p.dim; d++) sum += out[d] * d_out[d];
    delta[p.sum_of(b, i, h)] = sum;
    std::fill_n(t.d_q + row * p.dim, p.dim, 0.f);
  }
}

struct Task {
  const Problem& p;
  const Tensors& t;
  const float* delta;
  Turns& turns;

  // Block n of the keys of one key/value head, with all the queries that see it.
  void block_of_keys(int64_t b, int64_t kv, int64_t n) {
    const int64_t begin = n * KEYS, end = std::min(begin + KEYS, p.keys), at = p.key_row(b, begin, kv);
    Keys keys(p);
    keys.start({t.k + at, p.key_stride()}, {t.v + at, p.key_stride()}, begin, end - begin);
    const Range some = p.seeing(b, begin, end);
    for (int64_t h = kv * p.group(); h < (kv + 1) * p.group(); h++)
      for (int64_t m = some.begin / QUERIES; m * QUERIES < some.end && some.begin < some.end; m++)
        block_of_queries(keys, b, h, m, n);
    keys.finish({t.d_k + at, p.key_stride()}, {t.d_v + at, p.key_stride()});
  }

  void block_of_queries(Keys& keys, int64_t b, int64_t h, int64_t m, int64_t n) {
    const int64_t i = m * QUERIES, rows = std::min(i + QUERIES, p.live(b)) - i;
    const int64_t at = p.query_row(b, i, h), sum = p.sum_of(b, i, h), head = b * p.heads + h;
    const In q{t.q + at, p.query_stride()}, d_out{t.d_out + at, p.query_stride()};
    const Out d_q{t.d_q + at, p.query_stride()};
    const int64_t next = std::min(QUERIES, p.live(b) - i - rows);
    prefetch(d_q, rows, p.dim);
    prefetch(q.from(QUERIES), next, p.dim);
    prefetch(d_out.from(QUERIES), next, p.dim);
    keys.take({q, d_out, t.log_sum + sum, delta + sum, rows, p.dice_of(b, i, h)}, p.band(i, n * KEYS));
    turns.await(head, m, n);
    keys.add_d_q(d_q, rows);
    turns.pass(head, m, n);
  }
};

}  // namespace

// q, k, v, scale, window, offset, lengths, state, drop, out, log2-sum-exp2, gradient of out -> gradients of q, k, v
OPERATOR(attention_grad) {
  Problem p;
  if (call.count != 15) return WRONG_COUNT;
  if (const int status = read_problem(call, p)) return status;
  const bool fits = call.same_shape(9, 0) && call.same_shape(11, 0) && call.same_shape(12, 0) &&
                    call.same_shape(13, 1) && call.same_shape(14, 1) && call.size(10) == p.batch * p.heads * p.tokens;
  if (!fits) return WRONG_SHAPE;
  const Tensors t{call.at(0),  call.at(1),  call.at(2),  call.at(9), call.at(10),
                  call.at(11), call.at(12), call.at(13), call.at(14)};
  std::vector<float> delta(p.batch * p.heads * p.tokens);
  prepare(p, t, delta.data());
  Turns turns(p);
  const int64_t blocks = (p.keys + KEYS - 1) / KEYS, tasks = p.batch * p.kv_heads * blocks;
  std::atomic<int64_t> next{0};
#pragma omp parallel
  for (int64_t i; (i = next++) < tasks;)  // in this order, so a block that waits for its turn waits for one at work
    Task{p, t, delta.data(), turns}.block_of_keys(i / blocks / p.kv_heads, i / blocks % p.kv_heads, i % blocks);
  return OK;
}
