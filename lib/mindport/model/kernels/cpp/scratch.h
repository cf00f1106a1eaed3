// Memory that a kernel needs while it runs: each thread keeps its own, as large as any call has asked for.
#pragma once
#include <cstdlib>
#include <new>

const size_t LINE = 16;  // floats of a cache line

// This thread's own memory in this file, on a cache line; what was there before is lost.
static inline float* scratch(size_t floats) {
  struct Block {
    float* data = nullptr;
    size_t size = 0;
    ~Block() { std::free(data); }
  };
  static thread_local Block block;
  if (!block.data || block.size < floats) {
    std::free(block.data);
    block.size = (floats / LINE + 1) * LINE;
    block.data = (float*)std::aligned_alloc(LINE * sizeof(float), block.size * sizeof(float));
    if (!block.data) throw std::bad_alloc();
  }
  return block.data;
}
