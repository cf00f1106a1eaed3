// Calls operators on buffers of exactly their size, for the sanitizers to watch; linked with the kernels' sources.
//
//   drive < cases            a line is a case: the operator's name, then its arrays as `dtype:2x3` or `dtype:2=1,5`
//   drive --short < cases    the last array of each case is one element short, a fault that must be seen
#include <dlfcn.h>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

typedef int Operator(int, void**, int*, int64_t**, const char**, void*, void*);

struct Array {
  std::string dtype;
  std::vector<int64_t> shape;
  std::vector<double> values;
  std::unique_ptr<void, void (*)(void*)> memory{nullptr, free};

  explicit Array(const std::string& word) {
    const size_t colon = word.find(':'), equals = word.find('=');
    dtype = word.substr(0, colon);
    for (std::istringstream dims(word.substr(colon + 1, equals - colon - 1)); dims.peek() != EOF; dims.ignore())
      shape.push_back(number<int64_t>(dims));
    if (equals == std::string::npos) return;
    for (std::istringstream list(word.substr(equals + 1)); list.peek() != EOF; list.ignore())
      values.push_back(number<double>(list));
  }

  void allocate(int64_t missing) {  // elements
    int64_t count = 1;
    for (int64_t size : shape) count *= size;
    if (count) count -= missing;
    memory.reset(malloc(count * element()));
    for (int64_t i = 0; i < count; i++) set(i);
  }

 private:
  template <class T>
  static T number(std::istream& in) {
    T value;
    if (!(in >> value)) std::cerr << "drive: no number\n", exit(2);
    return value;
  }
  size_t element() const { return dtype == "float64" ? 8 : 4; }
  void set(int64_t i) {
    const bool given = i < (int64_t)values.size();
    if (dtype == "float32") ((float*)memory.get())[i] = given ? values[i] : (i * 2654435761u % 4001) / 1000.f - 2.f;
    if (dtype == "float64") ((double*)memory.get())[i] = given ? values[i] : 0.;
    if (dtype == "int32") ((int32_t*)memory.get())[i] = given ? (int32_t)values[i] : 0;
  }
};

static int run(const std::string& line, bool short_of_one) {
  std::istringstream words(line);
  std::string name, word;
  words >> name;
  std::vector<Array> arrays;
  while (words >> word) arrays.emplace_back(word);
  std::vector<void*> data;
  std::vector<int> ranks;
  std::vector<int64_t*> shapes;
  std::vector<const char*> dtypes;
  for (Array& array : arrays) {
    array.allocate(short_of_one && &array == &arrays.back());
    data.push_back(array.memory.get());
    ranks.push_back(array.shape.size());
    shapes.push_back(array.shape.data());
    dtypes.push_back(array.dtype.c_str());
  }
  auto* call = (Operator*)dlsym(RTLD_DEFAULT, (name + "_status").c_str());
  const int status = call ? call(arrays.size(), data.data(), ranks.data(), shapes.data(), dtypes.data(), 0, 0) : -1;
  if (status) std::cerr << "drive: status " << status << " of " << line << "\n";
  return status != 0;
}

int main(int count, char** words) {
  const bool short_of_one = count > 1 && !strcmp(words[1], "--short");
  int cases = 0, failures = 0;
  for (std::string line; std::getline(std::cin, line); cases++) failures += run(line, short_of_one);
  std::cout << cases << " cases, " << failures << " refused\n";
  return failures != 0;
}
