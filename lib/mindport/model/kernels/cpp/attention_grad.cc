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

constexpr int64_t QUERIES = 64, KEYS = 64, COLUMNS = KEYS / LANES;
constexpr int64_t CHUNK = 24;  // queries, where some keys are hidden: hidden vectors are left out chunk by chunk
constexpr float LOG2_E = 1.44269504f;

struct Tensors {
  const float *q, *k, *v, *out, *log_sum, *d_out;
  float *d_q, *d_k, *d_v;
};

// For each head and block of queries, which block of keys may add to its gradient next.
class Turns {
 public:
  Turns(const Problem& p) : blocks((p.tokens + QUERIES - 1) / QUERIES), next(p.batch * p.heads * blocks) {
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

// A block of keys of one key/value head.
struct Keys {
  const Problem& p;
  const float* delta;  // (B, H, T)
  int64_t begin, count, padded;  // padded: D in whole vectors
  Out k_lanes, v_lanes, dk_lanes, dv_lanes;  // (D, KEYS)
  Out k_rows, weights, d_scores, d_q;  // (KEYS, padded), (QUERIES, KEYS), (QUERIES, KEYS), (QUERIES, padded)

  Keys(const Problem& p, const float* delta) : p(p), delta(delta), padded((p.dim + LANES - 1) / LANES * LANES) {
    float* memory = scratch(4 * p.dim * KEYS + 2 * QUERIES * KEYS + (KEYS + QUERIES) * padded);
    for (Out* lanes : {&k_lanes, &v_lanes, &dk_lanes, &dv_lanes}) *lanes = {memory, KEYS}, memory += p.dim * KEYS;
    for (Out* rows : {&weights, &d_scores}) *rows = {memory, KEYS}, memory += QUERIES * KEYS;
    k_rows = {memory, padded}, d_q = {memory + KEYS * padded, padded};
  }

  void start(In k, In v, int64_t n) {
    to_lanes(k, k_lanes, n, p.dim, p.scale * LOG2_E);
    to_lanes(v, v_lanes, n, p.dim, 1.f);
    for (int64_t j = 0; j < n; j++) {
      float* row = k_rows.data + j * padded;
      for (int64_t d = 0; d < p.dim; d++) row[d] = p.scale * k.data[j * k.stride + d];
      std::fill(row + p.dim, row + padded, 0.f);
    }
    std::fill_n(dk_lanes.data, p.dim * KEYS, 0.f);
    std::fill_n(dv_lanes.data, p.dim * KEYS, 0.f);
    count = n;
  }

  // Rows of the block's own queries [i, i + rows), of which `columns` vectors of keys are seen.
  void chunk(In q, In d_out, const float* log_sum, const float* delta, int64_t i, int64_t rows, int64_t columns, const Band* band) {
    multiply<ACROSS, SET>(q.from(i), k_lanes, weights.from(i), rows, columns, p.dim);
    multiply<ACROSS, SET>(d_out.from(i), v_lanes, d_scores.from(i), rows, columns, p.dim);
    for (int64_t r = i; r < i + rows; r++)
      for (int64_t c = 0; c < columns; c++) gradient_of_scores(r, c, log_sum[r], delta[r], band);
    multiply<DOWN, ADD>(d_out.from(i), weights.from(i), dv_lanes, p.dim, columns, rows);
    multiply<DOWN, ADD>(q.from(i), d_scores.from(i), dk_lanes, p.dim, columns, rows);
    multiply<ACROSS, SET>(In(d_scores).from(i), k_rows, d_q.from(i), rows, padded / LANES, std::min(count, columns * LANES));
  }

  void gradient_of_scores(int64_t r, int64_t c, float log_sum, float delta, const Band* band) {
    float *weight = weights.data + r * KEYS + c * LANES, *d_score = d_scores.data + r * KEYS + c * LANES;
    Vec w = exp2_negative(load(weight) - log_sum);
    if (band) w = choose(shown(r, c, *band), w, splat(0.f));
    store(weight, w);
    store(d_score, w * (load(d_score) - delta));
  }

  static Ints shown(int64_t r, int64_t c, Band band) {
    Ints key;
    for (int i = 0; i < LANES; i++) key[i] = c * LANES + i;
    return (key <= (int32_t)(band.newest + r)) & (key > (int32_t)(band.oldest + r));
  }

  void queries(In q, In d_out, const float* log_sum, const float* delta, int64_t rows, Band band) {
    const int64_t all = (count + LANES - 1) / LANES;
    if (!band.hides(rows, count)) return chunk(q, d_out, log_sum, delta, 0, rows, all, nullptr);
    for (int64_t i = 0; i < rows; i += CHUNK) {
      const int64_t n = std::min(CHUNK, rows - i), newest = i + n - 1 + band.newest;
      chunk(q, d_out, log_sum, delta, i, n, newest < 0 ? 0 : std::min(all, newest / LANES + 1), &band);
    }
  }

  void add_d_q(Out to, int64_t rows) {
    for (int64_t i = 0; i < rows; i++) {
      const float* from = d_q.data + i * padded;
      float* row = to.data + i * to.stride;
      for (int64_t d = 0; d < p.dim; d++) row[d] += from[d];
    }
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
    delta[(b * p.heads + h) * p.tokens + i] = sum;
    std::fill_n(t.d_q + row * p.dim, p.dim, 0.f);
  }
}

void block_of_keys(const Problem& p, const Tensors& t, const float* delta, Turns& turns, int64_t b, int64_t kv, int64_t n) {
  const int64_t begin = n * KEYS, end = std::min(begin + KEYS, p.keys), at = p.key_row(b, begin, kv);
  Keys keys(p, delta);
  keys.start({t.k + at, p.key_stride()}, {t.v + at, p.key_stride()}, end - begin);
  const Range some = p.seeing(b, begin, end);
  if (some.begin < some.end)
    for (int64_t h = kv * p.group(); h < (kv + 1) * p.group(); h++)
      for (int64_t m = some.begin / QUERIES; m * QUERIES < some.end; m++) {
        const int64_t i = m * QUERIES, rows = std::min(i + QUERIES, p.live(b)) - i;
        const int64_t at = p.query_row(b, i, h), head = b * p.heads + h, sums = head * p.tokens + i;
        keys.queries({t.q + at, p.query_stride()}, {t.d_out + at, p.query_stride()}, t.log_sum + sums, delta + sums, rows,
                     p.band(i, begin));
        turns.await(head, m, n);
        keys.add_d_q({t.d_q + at, p.query_stride()}, rows);
        turns.pass(head, m, n);
      }
  keys.finish({t.d_k + at, p.key_stride()}, {t.d_v + at, p.key_stride()});
}

}  // namespace

// q, k, v, scale, window, offset, lengths, out, log2-sum-exp2, gradient of out -> gradients of q, k, v
OPERATOR(attention_grad) {
  Problem p;
  if (call.count != 13) return WRONG_COUNT;
  if (const int status = read_problem(call, p)) return status;
  const bool fits = call.same_shape(7, 0) && call.same_shape(9, 0) && call.same_shape(10, 0) &&
                    call.same_shape(11, 1) && call.same_shape(12, 1) && call.size(8) == p.batch * p.heads * p.tokens;
  if (!fits) return WRONG_SHAPE;
  const Tensors t{call.at(0), call.at(1), call.at(2), call.at(7), call.at(8), call.at(9), call.at(10), call.at(11), call.at(12)};
  std::vector<float> delta(p.batch * p.heads * p.tokens);
  prepare(p, t, delta.data());
  Turns turns(p);
  const int64_t blocks = (p.keys + KEYS - 1) / KEYS, tasks = p.batch * p.kv_heads * blocks;
  std::atomic<int64_t> task{0};
#pragma omp parallel
  for (int64_t i; (i = task++) < tasks;)  // in this order, so a block that waits for its turn waits for one at work
    block_of_keys(p, t, delta.data(), turns, i / blocks / p.kv_heads, i / blocks % p.kv_heads, i % blocks);
  return OK;
}
