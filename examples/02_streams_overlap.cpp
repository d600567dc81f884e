// Work in several streams at once: each stream copies in, computes and copies out its own part of one array.
#include <cstdio>
#include <numeric>
#include <vector>

#include <weir/weir.hpp>

struct Square {
  WEIR_KERNEL void operator()(std::size_t i, weir::View<const double> x, weir::View<double> y) const {
    y[i] = x[i] * x[i];
  }
};

int main(int argc, char** argv) {
  const weir::Device device = argc > 1 ? weir::device(argv[1]) : weir::default_device();
  constexpr std::size_t n = 1'000'003;
  constexpr std::size_t stream_count = 4;

  // Copies between host and device are asynchronous only from and to pinned memory: from pageable memory they would
  // hold this thread up, and the streams would take turns.
  auto input = weir::empty<double>(weir::pinned, n);
  auto output = weir::zeros<double>(weir::pinned, n);
  std::iota(input.begin(), input.end(), 0.0);

  std::vector<weir::Stream> streams;
  for (std::size_t s = 0; s < stream_count; ++s) streams.emplace_back(device);

  for (std::size_t s = 0; s < stream_count; ++s) {
    // The last part is shorter or longer than the others when n is not a multiple of the streams.
    const std::size_t begin = n * s / stream_count;
    const std::size_t end = n * (s + 1) / stream_count;

    auto x = weir::empty<double>(streams[s], end - begin);
    auto y = weir::empty<double>(streams[s], end - begin);
    weir::copy(streams[s], x, input.slice(begin, end));
    weir::launch(streams[s], end - begin, Square{}, weir::in(x), weir::out(y));
    weir::copy(streams[s], output.slice(begin, end), y);
    // x and y go out of scope here. Their memory stays until the stream has finished with it.
  }

  // Each stream runs its three commands in order. Between streams there is no order: one copies while another computes.
  for (const weir::Stream& stream : streams) stream.synchronize();

  // weir::host_read says that the host reads here: had a stream not been waited for, WEIR_CHECK=1 would tell.
  const auto squares = weir::host_read(output);
  for (std::size_t i = 0; i < n; ++i) {
    if (squares[i] != static_cast<double>(i) * static_cast<double>(i)) {
      std::printf("output[%zu] is %g: wrong\n", i, squares[i]);
      return 1;
    }
  }
  std::printf("%s: %zu squares through %zu streams, output[1000] = %g\n", device.name().c_str(), n, stream_count,
              squares[1000]);
  return 0;
}
