// Which keys a query sees, and where everything lies.
#pragma once
#include <algorithm>

#include "attention_tiles.h"
#include "call.h"
#include "keep.h"
#include "scratch.h"

struct Range {
  int64_t begin, end;
};

static inline int64_t clip(int64_t x, int64_t low, int64_t high) { return std::max(low, std::min(x, high)); }

// Of a block of queries and a block of keys: query i sees key j, each counted in its block,
// ⇔ oldest + i < j <= newest + i.
struct Band {
  int32_t newest, oldest;
  bool hides(int64_t queries, int64_t keys) const { return keys - 1 > newest || oldest + queries - 1 >= 0; }
  bool shows(int64_t i, int64_t j) const { return oldest + i < j && j <= newest + i; }
};

struct Problem {
  int64_t batch, tokens, keys, heads, kv_heads, dim;  // B, T, S, H, K, D
  int64_t offset, window;
  const int32_t* lengths;  // (B,) or (1,): the real tokens of a sequence
  int64_t length_step;     // 1 or 0
  float scale;
  Keep keep;  // which weights dropout keeps: row (b, h, query), column key

  int64_t group() const { return heads / kv_heads; }

  // How many queries of sequence b are real; those beyond see nothing, and real ones see no key beyond.
  int64_t live(int64_t b) const { return clip(lengths[b * length_step] - offset, 0, tokens); }

  // The keys that any of the queries [begin, end) sees.
  Range seen_by(int64_t begin, int64_t end) const {
    const int64_t first = clip(begin + offset - window + 1, 0, keys);
    return {first, std::max(first, std::min(keys, end + offset))};
  }

  bool sees_nothing(int64_t query) const {
    const Range seen = seen_by(query, query + 1);
    return seen.begin == seen.end;
  }

  // The keys that all of them see.
  Range seen_by_all(int64_t begin, int64_t end) const {
    const int64_t first = clip(end + offset - window, 0, keys);
    return {first, std::max(first, std::min(keys, begin + offset + 1))};
  }

  // The queries of sequence b that see any of the keys [begin, end).
  Range seeing(int64_t b, int64_t begin, int64_t end) const {
    const int64_t first = clip(begin - offset, 0, live(b));
    return {first, clip(end - 1 + window - offset, first, live(b))};
  }

  Band band(int64_t query, int64_t key) const {
    const int64_t newest = query + offset - key, far = 1 << 20;  // far beyond a block, and far from overflow
    return {(int32_t)clip(newest, -far, far), (int32_t)clip(newest - window, -far, far)};
  }

  int64_t query_row(int64_t b, int64_t i, int64_t h) const { return ((b * tokens + i) * heads + h) * dim; }
  int64_t key_row(int64_t b, int64_t j, int64_t k) const { return ((b * keys + j) * kv_heads + k) * dim; }
  int64_t sum_of(int64_t b, int64_t i, int64_t h) const { return (b * heads + h) * tokens + i; }  // in (B, H, T)
  // Which row of the scores of all processes this query has.
  uint32_t dice_of(int64_t b, int64_t i, int64_t h) const {
    return keep.first_row(batch, b, heads * tokens) + (uint32_t)(h * tokens + i);
  }
  int64_t query_stride() const { return heads * dim; }
  int64_t key_stride() const { return kv_heads * dim; }
};

constexpr float LOG2_E = 1.44269504f;  // scores are taken times this: powers of 2 cost less than those of e
constexpr int64_t ALIGNED_AT_END = INT32_MIN;  // as an offset: the last query is at the last key

// The inputs q, k, v, scale, window, offset, lengths, state, drop, which both operators begin with.
static inline int read_problem(const Call& call, Problem& p) {
  for (int i = 0; i < call.count; i++)
    if (!call.is(i, i >= 4 && i <= 8 ? "int32" : "float32")) return WRONG_DTYPE;
  for (int i = 0; i < 3; i++)
    if (call.ranks[i] != 4) return WRONG_SHAPE;
  p.batch = call.dim(0, 0), p.tokens = call.dim(0, 1), p.heads = call.dim(0, 2), p.dim = call.dim(0, 3);
  p.keys = call.dim(1, 1), p.kv_heads = call.dim(1, 2);
  const bool fits = call.same_shape(1, 2) && call.dim(1, 0) == p.batch && call.dim(1, 3) == p.dim && p.kv_heads > 0 &&
                    p.heads % p.kv_heads == 0 && p.dim % 8 == 0 && p.dim > 0 && p.dim <= 256;
  if (!fits || call.size(3) != 1 || call.size(4) != 1 || call.size(5) != 1) return WRONG_SHAPE;
  if (call.size(6) != 1 && call.size(6) != p.batch) return WRONG_SHAPE;
  p.scale = *call.at(3), p.window = *call.at<int32_t>(4), p.offset = *call.at<int32_t>(5);
  if (p.offset == ALIGNED_AT_END) p.offset = p.keys - p.tokens;
  p.lengths = call.at<int32_t>(6), p.length_step = call.size(6) == 1 ? 0 : 1;
  if (!holds_keep(call, 7)) return WRONG_SHAPE;
  p.keep = Keep::read(call.at<int32_t>(7), call.at<int32_t>(8));
  return p.window > 0 ? OK : WRONG_SHAPE;
}
