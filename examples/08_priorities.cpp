// Stream priorities: of the work that is ready, that of the stream with the higher priority goes first.
#include <cstdio>

#include <weir/weir.hpp>

struct Work {
  WEIR_KERNEL void operator()(std::size_t i, weir::View<float> data) const {
    for (int step = 0; step < 100; ++step) data[i] = data[i] * 0.5f + 1.0f;
  }
};

int main(int argc, char** argv) {
  const weir::Device device = argc > 1 ? weir::device(argv[1]) : weir::default_device();
  constexpr std::size_t n = 100'000;
  constexpr int launches = 20;

  // Lower numbers are higher priorities. A number out of the range is taken to its nearest end.
  const weir::PriorityRange range = device.properties().stream_priorities;
  weir::Stream background(device, {.priority = range.least, .name = "background"});
  weir::Stream urgent(device, {.priority = range.greatest, .name = "urgent"});
  std::printf("%s: priorities from %d (least) to %d (greatest)\n", device.name().c_str(), range.least, range.greatest);

  auto a = weir::zeros<float>(background, n);
  auto b = weir::zeros<float>(urgent, n);
  device.synchronize();

  // The background work is issued first.
  weir::TimedEvent start = background.record_timed();
  for (int launch = 0; launch < launches; ++launch) weir::launch(background, n, Work{}, weir::inout(a));
  weir::TimedEvent background_done = background.record_timed();
  for (int launch = 0; launch < launches; ++launch) weir::launch(urgent, n, Work{}, weir::inout(b));
  weir::TimedEvent urgent_done = urgent.record_timed();
  device.synchronize();

  // A priority is a preference, never an order: what must come first needs an event. So the times are only shown.
  std::printf("the urgent work was done after %.2f ms, the background work after %.2f ms\n",
              weir::elapsed(start, urgent_done).count(), weir::elapsed(start, background_done).count());

  const weir::Stream extreme(device, {.priority = range.greatest - 1000});
  const bool clamped = extreme.priority() == range.greatest;
  const bool same = a.to_host() == b.to_host();
  if (!clamped || !same) {
    std::printf("wrong: priority clamped: %d, results equal: %d\n", clamped, same);
    return 1;
  }
  return 0;
}
