// Many tensors as one list of pieces of about equal size, which threads share evenly however different the tensors are.
#pragma once
#include <algorithm>
#include <vector>

#include "call.h"

struct Piece {
  int tensor;
  int64_t from, size;
};

// The pieces of the tensors `first` … `first + count - 1`, in order; the same for any number of threads.
static inline std::vector<Piece> pieces(const Call& call, int first, int count) {
  const int64_t most = 1 << 14;  // floats: small enough to be shared out evenly, large enough to be worth a turn
  std::vector<Piece> list;
  for (int i = 0; i < count; i++)
    for (int64_t from = 0, size = call.size(first + i); from < size; from += most)
      list.push_back({i, from, std::min(most, size - from)});
  return list;
}
