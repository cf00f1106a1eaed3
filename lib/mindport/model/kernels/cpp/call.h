// What MindSpore hands to a C++ operator (func_type "aot"): the inputs, then the outputs, as dense arrays.
#pragma once
#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <string>

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

// What an operator's body returns.
enum Status { OK = 0, WRONG_COUNT = 11, WRONG_SHAPE = 12, WRONG_DTYPE = 13, WRONG_LABEL = 21 };

static inline const char* words(int status) {
  switch (status) {
    case WRONG_COUNT: return "it does not take so many arrays";
    case WRONG_SHAPE: return "the shapes do not fit each other, or a setting is out of range";
    case WRONG_DTYPE: return "it does not take these dtypes";
    case WRONG_LABEL: return "a label is no class";
    default: return "it failed";
  }
}

// "float32 (7, 11), int32 (7)"; of many arrays the first ones.
static inline std::string described(const Call& call) {
  const int most = 16;
  std::string text;
  for (int i = 0; i < call.count && i < most; i++) {
    text += (i ? ", " : "") + std::string(call.dtypes[i]) + " (";
    for (int axis = 0; axis < call.ranks[i]; axis++) text += (axis ? ", " : "") + std::to_string(call.dim(i, axis));
    text += ")";
  }
  return call.count > most ? text + ", …" : text;
}

// Of a status other than OK, MindSpore would tell the number alone; of an exception it tells the text, as RuntimeError.
static inline int speak(const char* name, const Call& call, int status) {
  if (status == OK) return OK;
  throw std::invalid_argument(std::string(name) + ": " + words(status) + "; got " + described(call));
}

// Defines `name`, the C function that MindSpore looks up; its body sees `call`. `name`_status returns the status
// instead of throwing, for callers that cannot catch, as Python's ctypes.
#define OPERATOR(name)                                                                                                \
  static int name##_body(const Call& call);                                                                           \
  extern "C" int name##_status(int count, void** data, int* ranks, int64_t** shapes, const char** dtypes, void*,      \
                               void*) {                                                                               \
    return name##_body(Call{count, data, ranks, shapes, dtypes});                                                     \
  }                                                                                                                   \
  extern "C" int name(int count, void** data, int* ranks, int64_t** shapes, const char** dtypes, void*, void*) {      \
    const Call call{count, data, ranks, shapes, dtypes};                                                              \
    return speak(#name, call, name##_body(call));                                                                     \
  }                                                                                                                   \
  static int name##_body(const Call& call)
