// What MindSpore hands to a C++ operator (func_type "aot"): the inputs, then the outputs, as dense arrays.
#pragma once
#include <cstdint>
#include <cstring>

struct Call {
  int count;
  void** data;
  int* ranks;
  int64_t** shapes;
  const char** dtypes;

  template <class T = float>
  T* at(int i) const { return (T*)data[i]; }
  int64_t size(int i) const { return product(i, 0, ranks[i]); }
  int64_t dim(int i, int axis) const { return shapes[i][axis < 0 ? ranks[i] + axis : axis]; }
  int64_t rows(int i) const { return product(i, 0, ranks[i] - 1); }  // all axes but the last
  bool is(int i, const char* dtype) const { return strcmp(dtypes[i], dtype) == 0; }
  bool same_shape(int i, int j) const {
    return ranks[i] == ranks[j] && memcmp(shapes[i], shapes[j], ranks[i] * sizeof(int64_t)) == 0;
  }
  bool all_float32() const {
    for (int i = 0; i < count; i++)
      if (!is(i, "float32")) return false;
    return true;
  }

 private:
  int64_t product(int i, int from, int to) const {
    int64_t n = 1;
    for (int axis = from; axis < to; axis++) n *= shapes[i][axis];
    return n;
  }
};

// What an operator returns: MindSpore raises RuntimeError with the number, on anything but 0.
enum Status { OK = 0, WRONG_COUNT = 11, WRONG_SHAPE = 12, WRONG_DTYPE = 13 };

// Defines `name` as the C function that MindSpore looks up; its body sees `call`.
#define OPERATOR(name)                                                                                             \
  static int name##_body(const Call& call);                                                                        \
  extern "C" int name(int count, void** data, int* ranks, int64_t** shapes, const char** dtypes, void*, void*) {   \
    return name##_body(Call{count, data, ranks, shapes, dtypes});                                                  \
  }                                                                                                                \
  static int name##_body(const Call& call)
