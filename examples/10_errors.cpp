// What one sees when something goes wrong: at the call for misuse, at the next synchronisation for work that failed.
#include <cmath>
#include <cstdio>
#include <stdexcept>

#include <weir/weir.hpp>

struct CheckedRoot {
  void operator()(std::size_t i, weir::View<double> x) const {
    if (x[i] < 0.0) throw std::domain_error("the root of a negative number");
    x[i] = std::sqrt(x[i]);
  }
};
struct AddOne {
  void operator()(std::size_t i, weir::View<double> x) const { x[i] += 1.0; }
};

int main(int argc, char** argv) {
  // Kernels can throw where they run on the CPU. On a GPU they report failures through their results.
  const weir::Device device = weir::device(argc > 1 ? argv[1] : "cpu");
  weir::Stream stream(device, {.name = "solver"});
  auto x = weir::full(weir::pinned, 100, -1.0);  // the host reads it in place, once the stream was waited for
  int wrong = 0;

  // Misuse throws at once, and nothing has changed.
  try {
    weir::copy(stream, x.slice(0, 10), x.slice(20, 25));
    ++wrong;
  } catch (const weir::Error& error) {
    std::printf("a copy of 5 elements to 10: %s\n", error.code().message().c_str());
    if (error.errc() != weir::Errc::wrong_shape) ++wrong;
  }

  // A kernel fails later than its launch. Work behind it in the stream does not run on what it left behind.
  const unsigned launch_line = __LINE__ + 1;
  weir::launch(stream, 100, CheckedRoot{}, weir::inout(x));
  weir::launch(stream, 100, AddOne{}, weir::inout(x));
  try {
    stream.synchronize();
    ++wrong;
  } catch (const weir::Error& error) {
    std::printf("%s: line %u launched what failed\n", error.code().message().c_str(), error.where().line());
    if (error.errc() != weir::Errc::kernel_failed || error.where().line() != launch_line) ++wrong;
    try {
      if (error.cause()) std::rethrow_exception(error.cause());
      ++wrong;
    } catch (const std::domain_error& cause) {
      std::printf("its cause: %s\n", cause.what());
    }
  }

  // The failure was reported, so the stream runs again. AddOne was skipped: the values are still -1.
  weir::launch(stream, 100, AddOne{}, weir::inout(x));
  stream.synchronize();
  const double value = weir::host_read(x)[99];
  std::printf("afterwards x[99] = %g\n", value);
  if (value != 0.0) ++wrong;
  return wrong == 0 ? 0 : 1;
}
