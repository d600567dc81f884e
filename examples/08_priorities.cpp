// Stream priorities: of the work that is ready, that of the stream with the higher priority goes first.
#include <algorithm>
#include <cstdio>
#include <vector>

#include <weir/weir.hpp>

struct Work {
  WEIR_KERNEL void operator()(std::size_t i, weir::View<float> data) const {
    for (int step = 0; step < 50; ++step) data[i] = data[i] * 0.5f + 1.0f;
  }
};

constexpr std::size_t n = 10'000;
constexpr int launches = 10;

/// Returns pinned memory that the result is in once the stream was waited for.
weir::Array<float> work_on(weir::StreamRef stream) {
  auto data = weir::zeros<float>(stream, n);
  for (int launch = 0; launch < launches; ++launch) weir::launch(stream, n, Work{}, weir::inout(data));
  auto result = weir::empty<float>(weir::pinned, n);
  weir::copy(stream, result, data);
  return result;
}

int main(int argc, char** argv) {
  const weir::Device device = argc > 1 ? weir::device(argv[1]) : weir::default_device();

  // Lower numbers are higher priorities. A number out of the range is taken to its nearest end.
  const weir::PriorityRange range = device.properties().stream_priorities;
  std::printf("%s: priorities from %d (least) to %d (greatest)\n", device.name().c_str(), range.least, range.greatest);
  weir::Stream urgent(device, {.priority = range.greatest, .name = "urgent"});
  std::vector<weir::Stream> background;
  for (int i = 0; i < 8; ++i) background.emplace_back(device, weir::StreamOptions{.priority = range.least});

  // The urgent work is issued last.
  weir::TimedEvent start = urgent.record_timed();
  std::vector<weir::Array<float>> results;
  std::vector<weir::TimedEvent> background_done;
  for (weir::Stream& stream : background) {
    results.push_back(work_on(stream));
    background_done.push_back(stream.record_timed());
  }
  results.push_back(work_on(urgent));
  weir::TimedEvent urgent_done = urgent.record_timed();
  device.synchronize();

  // A priority is a preference, never an order: what must come first needs an event. So the times are only shown.
  std::printf("the urgent work was done after %.2f ms, the background after",
              weir::elapsed(start, urgent_done).count());
  for (const weir::TimedEvent& done : background_done) std::printf(" %.2f", weir::elapsed(start, done).count());
  std::printf(" ms\n");

  const weir::Stream extreme(device, {.priority = range.greatest - 1000});
  bool right = extreme.priority() == range.greatest;
  const auto expected = weir::host_read(results.front());
  for (const weir::Array<float>& result : results) {
    const auto values = weir::host_read(result);
    right = right && std::equal(values.begin(), values.end(), expected.begin(), expected.end());
  }
  std::printf("%s\n", right ? "all results are equal" : "wrong");
  return right ? 0 : 1;
}
