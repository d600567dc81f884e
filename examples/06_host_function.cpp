// Host functions: calls on the host, in stream order. They own what they capture and must not call Weir.
#include <cstdio>
#include <memory>
#include <numeric>
#include <vector>

#include <weir/weir.hpp>

struct Double {
  WEIR_KERNEL void operator()(std::size_t i, weir::View<int> data) const { data[i] *= 2; }
};

int main(int argc, char** argv) {
  const weir::Device device = argc > 1 ? weir::device(argv[1]) : weir::default_device();
  constexpr std::size_t n = 1000;
  weir::Stream stream(device);

  auto data = weir::ones<int>(stream, n);
  auto readback = weir::empty<int>(weir::pinned, n);
  std::vector<int> sums;

  for (int round = 0; round < 3; ++round) {
    weir::launch(stream, n, Double{}, weir::inout(data));
    weir::copy(stream, readback, data);
    // Runs after the copy and before the next round. The unique_ptr moves into the stream and is destroyed after the
    // call.
    auto label = std::make_unique<int>(round);
    weir::host_call(
        stream,
        [&sums, view = readback.view<1>(), label = std::move(label)] {
          sums.push_back(std::accumulate(view.data(), view.data() + view.size(), *label));
        },
        weir::in(readback));
  }
  stream.synchronize();

  if (sums != std::vector<int>{2000, 4001, 8002} || weir::host_read(readback)[0] != 8) {
    std::printf("the host functions saw wrong sums\n");
    return 1;
  }
  std::printf("%s: sums after each round: %d %d %d\n", device.name().c_str(), sums[0], sums[1], sums[2]);

  // A call to Weir in there could wait for itself. In CUDA that may hang; here it is refused with an error.
  bool refused = false;
  weir::host_call(stream, [&stream, &refused] {
    try {
      stream.synchronize();
    } catch (const weir::Error& error) {
      refused = error.errc() == weir::Errc::not_permitted;
    }
  });
  stream.synchronize();
  std::printf("a Weir call inside a host function is refused: %s\n", refused ? "yes" : "NO");
  return refused ? 0 : 1;
}
