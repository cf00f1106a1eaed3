// The largest error of each function of vectors, relative to its true value: `function error`, a line each.
#include <cmath>
#include <cstdio>

#include "activation.cc"

template <class F, class Exact>
static void measure(const char* name, float low, float high, F f, Exact exact) {
  const int vectors = 1 << 20;
  double worst = 0.;
  for (int i = 0; i < vectors; i++) {
    Vec x;
    for (int lane = 0; lane < LANES; lane++) x[lane] = low + (high - low) * (i + (double)lane / LANES) / vectors;
    const Vec y = f(x);
    for (int lane = 0; lane < LANES; lane++) {
      const double right = exact((double)x[lane]);
      worst = std::fmax(worst, std::fabs(y[lane] - right) / right);
    }
  }
  printf("%s %.3g\n", name, worst);
}

static double exp_of(double x) { return std::exp(x); }
static double power(double x) { return std::exp2(x); }
static double sigmoid_of(double x) { return 1. / (1. + std::exp(-x)); }
static double over_bell_of(double x) { return 0.5 * std::erfc(x * std::sqrt(0.5)) * std::exp(0.5 * x * x); }

int main() {
  measure("exp", -87.3f, 88.7f, [](Vec x) { return exp(x); }, exp_of);
  measure("exp_inside", -87.3f, 88.f, [](Vec x) { return exp_inside(x); }, exp_of);
  measure("exp2_negative", -126.f, 0.f, [](Vec x) { return exp2_negative(x); }, power);
  measure("over_bell", 0.f, 14.f, GeluErf::over_bell, over_bell_of);
  measure("sigmoid", -87.f, 87.f, [](Vec x) { return sigmoid(x); }, sigmoid_of);
}
