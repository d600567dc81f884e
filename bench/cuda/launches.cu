// A launch with four arguments: what it costs the host, and a launch with a wait for it.
#include <weir/weir.hpp>

#include "bursts.hpp"
#include "raw.hpp"

namespace bench {

namespace {

__global__ void nothing(const double*, const double*, double*, int) {}

struct Nothing {
  WEIR_KERNEL void operator()(std::size_t, weir::View<const double>, weir::View<const double>, weir::View<double>,
                              int) const {}
};

constexpr std::size_t elements = 32;

/// The same kernel to launch both ways.
struct Launches {
  explicit Launches(weir::Device device)
      : stream(device, {.blocking = false}),
        x(weir::zeros<double>(stream, elements)),
        y(weir::zeros<double>(stream, elements)),
        z(weir::zeros<double>(stream, elements)) {
    stream.synchronize();
  }
  void launch_raw() { nothing<<<1, elements, 0, raw_stream>>>(x.data(), y.data(), z.data(), turn++); }
  void launch_ours() { weir::launch(stream, elements, Nothing{}, weir::in(x), weir::in(y), weir::out(z), turn++); }

  weir::Stream stream;
  raw::Stream raw_stream;
  weir::Array<double> x;
  weir::Array<double> y;
  weir::Array<double> z;
  int turn = 0;
};

}  // namespace

void launch_cost(Context& context) {
  Launches launches(context.device);
  constexpr std::size_t count = 500;  // below the 1,021 launches that the driver takes before it blocks
  const Pair pair = by_turns(
      bursts(context),
      [&] {
        return host_cost(
            count, [&] { launches.launch_raw(); }, [&] { launches.raw_stream.synchronize(); });
      },
      [&] {
        return host_cost(
            count, [&] { launches.launch_ours(); }, [&] { launches.stream.synchronize(); });
      });
  raw::check_last();
  context.report.add({"launch",
                      "launch with 4 arguments, host cost",
                      "us",
                      pair.ours,
                      pair.raw,
                      {ratio_at_most(1.03), ahead_of(4.0, 3.15, pair, "us")},
                      "Numba 16.1, CuPy 4.0, PyTorch 5.9 us"});
}

void launch_wait(Context& context) {
  Launches launches(context.device);
  constexpr std::size_t count = 200;
  const auto none = [] {};
  const Pair pair = by_turns(
      bursts(context),
      [&] {
        return whole_cost(
            count,
            [&] {
              launches.launch_raw();
              cudaStreamSynchronize(launches.raw_stream);
            },
            none);
      },
      [&] {
        return whole_cost(
            count,
            [&] {
              launches.launch_ours();
              launches.stream.synchronize();
            },
            none);
      });
  raw::check_last();
  context.report.add({"launch_wait",
                      "launch and wait",
                      "us",
                      pair.ours,
                      pair.raw,
                      {ratio_at_most(1.03), ahead_of(21.7, 8.14, pair, "us")},
                      "Numba 21.7 us"});
}

}  // namespace bench
