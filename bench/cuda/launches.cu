// A launch with four arguments: what it costs the host, and a launch with a wait for it.
#include <algorithm>
#include <vector>

#include <weir/weir.hpp>

#include "bursts.hpp"
#include "raw.hpp"
#include "support/proof.hpp"

namespace bench {

namespace {

constexpr std::size_t elements = 32;
constexpr std::size_t count = 500;  // below the 1,021 launches that the driver takes before it blocks

/// Each launch leaves its own number in its own place.
WEIR_KERNEL void leave_mark([[maybe_unused]] double* z, [[maybe_unused]] int turn) {
  if constexpr (!sabotaged) z[static_cast<std::size_t>(turn < 0 ? -turn : turn) % count] = turn;
}

__global__ void mark(const double*, const double*, double* z, int turn) {
  if (threadIdx.x == 0) leave_mark(z, turn);
}

struct Mark {
  WEIR_KERNEL void operator()(std::size_t i, weir::View<const double>, weir::View<const double>, weir::View<double> z,
                              int turn) const {
    if (i == 0) leave_mark(z.data(), turn);
  }
};

/// The same kernel to launch both ways: ours counts up from 1, the driver's down from -1.
struct Launches {
  explicit Launches(weir::Device device)
      : stream(device, {.blocking = false}),
        x(weir::zeros<double>(stream, elements)),
        y(weir::zeros<double>(stream, elements)),
        ours(weir::zeros<double>(stream, count)),
        by_hand(weir::zeros<double>(stream, count)),
        function(raw::function_of(reinterpret_cast<const void*>(&mark))) {
    stream.synchronize();
  }
  void launch_raw() {
    const double* from = x.data();
    const double* and_from = y.data();
    double* to = by_hand.data();
    --raw_turn;
    void* arguments[] = {&from, &and_from, &to, &raw_turn};
    raw::driver().launch_kernel(function, 1, 1, 1, elements, 1, 1, 0, raw_stream, arguments, nullptr);
  }
  void launch_ours() { weir::launch(stream, elements, Mark{}, weir::in(x), weir::in(y), weir::out(ours), ++turn); }
  void wait_raw() const { raw::driver().synchronize_stream(raw_stream); }

  /// The last launches of each side are all there.
  void prove() const {
    const std::vector<double> our_marks = ours.to_host();
    const std::vector<double> raw_marks = by_hand.to_host();
    const int last = std::min<int>(turn, count);
    const int raw_last = std::min<int>(-raw_turn, count);
    for (int i = 0; i < last; ++i) {
      const int expected = turn - i;
      expect(our_marks[static_cast<std::size_t>(expected) % count] == expected, "a launch of ours did not run");
    }
    for (int i = 0; i < raw_last; ++i) {
      const int expected = -raw_turn - i;
      expect(raw_marks[static_cast<std::size_t>(expected) % count] == -expected, "a raw launch did not run");
    }
    expect(last > 0 && raw_last > 0, "nothing was launched");
  }

  weir::Stream stream;
  raw::Stream raw_stream;
  weir::Array<double> x;
  weir::Array<double> y;
  weir::Array<double> ours;
  weir::Array<double> by_hand;
  CUfunction function;
  int turn = 0;
  int raw_turn = 0;
};

}  // namespace

void launch_cost(Context& context) {
  Launches launches(context.device);
  const Pair pair = by_turns(
      bursts(context),
      [&] {
        return host_cost(
            count, [&] { launches.launch_raw(); }, [&] { launches.wait_raw(); });
      },
      [&] {
        return host_cost(
            count, [&] { launches.launch_ours(); }, [&] { launches.stream.synchronize(); });
      });
  raw::check_last();
  launches.prove();
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
  constexpr std::size_t turns = 200;
  const auto none = [] {};
  const Pair pair = by_turns(
      bursts(context),
      [&] {
        return whole_cost(
            turns,
            [&] {
              launches.launch_raw();
              launches.wait_raw();
            },
            none);
      },
      [&] {
        return whole_cost(
            turns,
            [&] {
              launches.launch_ours();
              launches.stream.synchronize();
            },
            none);
      });
  raw::check_last();
  launches.prove();
  context.report.add({"launch_wait",
                      "launch and wait",
                      "us",
                      pair.ours,
                      pair.raw,
                      {ratio_at_most(1.03), ahead_of(21.7, 8.14, pair, "us")},
                      "Numba 21.7 us"});
}

}  // namespace bench
