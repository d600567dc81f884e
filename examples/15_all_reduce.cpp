// Collectives: two ranks, each a device with its stream and its part of the data, add up what they have. One thread serves both;
// a thread for each would write the same calls.
#include <cstdio>
#include <cstdlib>
#include <vector>

#include <weir/collectives.hpp>
#include <weir/weir.hpp>

struct Square {
  WEIR_KERNEL void operator()(std::size_t i, std::size_t first, weir::View<double> x) const {
    const auto number = static_cast<double>(first + i);
    x[i] = number * number;
  }
};

int main() {
  // The cores of the CPU are split between two devices, unless the environment says otherwise.
  setenv("WEIR_CPU_DEVICES", "2", /*overwrite=*/0);
  const std::vector<weir::Device> devices = weir::devices("cpu");
  if (devices.size() < 2) {
    std::printf("one CPU device: nothing to show\n");
    return 0;
  }
  const std::vector<weir::Communicator> comms = weir::communicators({devices[0], devices[1]}, {.name = "squares"});

  constexpr std::size_t n = 1'000;
  std::vector<weir::Stream> streams;
  auto sums = weir::empty<double>(weir::pinned, 2);
  for (std::size_t rank = 0; rank < 2; ++rank) {
    const weir::Stream& stream = streams.emplace_back(devices[rank]);
    auto part = weir::empty<double>(stream, n);
    weir::launch(stream, n, Square{}, rank * n, weir::inout(part));
    auto sum = weir::empty<double>(stream, 1);
    weir::reduce(stream, part, sum);
    // A command like any other: behind the sum of this rank, and of the other one, whose call comes next.
    weir::all_reduce(stream, comms[rank], weir::inout(sum), weir::Plus{});
    weir::copy(stream, sums.slice(rank, rank + 1), sum);
  }
  for (const weir::Stream& stream : streams) stream.synchronize();

  const auto values = weir::host_read(sums);
  const double first = values[0], second = values[1];
  std::printf("%s: %g, %s: %g\n", devices[0].name().c_str(), first, devices[1].name().c_str(), second);
  double expected = 0;
  for (std::size_t i = 0; i < 2 * n; ++i) expected += static_cast<double>(i) * static_cast<double>(i);
  return first == expected && second == expected ? 0 : 1;
}
