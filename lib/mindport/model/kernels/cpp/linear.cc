// y = x Wᵀ + b, with x (…, K), W (N, K), b (N,), y (…, N), and its gradients.
#include "call.h"
#include "gemm.h"

// Whether array i is (…, width), (size,), (rows, columns).
static bool is_wide(const Call& call, int i, int64_t width) { return call.ranks[i] > 0 && call.dim(i, -1) == width; }
static bool is_vector(const Call& call, int i, int64_t size) { return call.ranks[i] == 1 && call.dim(i, 0) == size; }
static bool is_matrix(const Call& call, int i, int64_t rows, int64_t columns) {
  return call.ranks[i] == 2 && call.dim(i, 0) == rows && call.dim(i, 1) == columns;
}

static int forward(const Call& call, bool biased) {
  const int y = biased ? 3 : 2;
  if (call.count != y + 1) return WRONG_COUNT;
  if (!call.all_float32()) return WRONG_DTYPE;
  if (call.ranks[1] != 2) return WRONG_SHAPE;
  const int64_t N = call.dim(1, 0), K = call.dim(1, 1);
  if (!is_wide(call, 0, K) || !is_wide(call, y, N) || call.rows(0) != call.rows(y)) return WRONG_SHAPE;
  if (biased && !is_vector(call, 2, N)) return WRONG_SHAPE;
  Product product = {call.rows(0), N, K, matrix(call.at(0), K), transposed(call.at(1), K), call.at(y)};
  if (biased) product.bias = call.at(2);
  gemm(product);
  return OK;
}

static int backward(const Call& call, bool biased) {
  if (call.count != (biased ? 4 : 3)) return WRONG_COUNT;
  if (!call.all_float32()) return WRONG_DTYPE;
  if (!call.ranks[0] || !call.ranks[1] || call.rows(0) != call.rows(1)) return WRONG_SHAPE;
  const int64_t N = call.dim(0, -1), K = call.dim(1, -1);
  if (!is_matrix(call, 2, N, K) || (biased && !is_vector(call, 3, N))) return WRONG_SHAPE;
  Product product = {N, K, call.rows(0), transposed(call.at(0), N), matrix(call.at(1), K), call.at(2)};
  if (biased) product.row_sums = call.at(3);
  gemm(product);
  return OK;
}

// With and without a bias are functions of their own: Graph mode knows the gradient of a function by its name.
OPERATOR(linear) { return forward(call, false); }               // x, W -> y
OPERATOR(linear_bias) { return forward(call, true); }           // x, W, b -> y
OPERATOR(linear_grad_weight) { return backward(call, false); }  // dy, x -> dW
OPERATOR(linear_grad_both) { return backward(call, true); }     // dy, x -> dW, db

OPERATOR(linear_grad_input) {  // dy, W -> dx
  if (call.count != 3) return WRONG_COUNT;
  if (!call.all_float32()) return WRONG_DTYPE;
  if (call.ranks[1] != 2) return WRONG_SHAPE;
  const int64_t N = call.dim(1, 0), K = call.dim(1, 1);
  if (!is_wide(call, 0, N) || !is_wide(call, 2, K) || call.rows(0) != call.rows(2)) return WRONG_SHAPE;
  gemm({call.rows(0), K, N, matrix(call.at(0), N), matrix(call.at(1), K), call.at(2)});
  return OK;
}
