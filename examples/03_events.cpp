// Events: one stream waits for another without stopping the host, and two events time the work between them.
#include <cstdio>
#include <vector>

#include <weir/weir.hpp>

struct Produce {
  WEIR_KERNEL void operator()(std::size_t i, weir::View<float> data) const { data[i] = static_cast<float>(i); }
};
struct Consume {
  WEIR_KERNEL void operator()(std::size_t i, weir::View<const float> data, weir::View<float> result) const {
    result[i] = data[i] + 1.0f;
  }
};

int main(int argc, char** argv) {
  const weir::Device device = argc > 1 ? weir::device(argv[1]) : weir::default_device();
  constexpr std::size_t n = 1'000'000;

  weir::Stream producer(device, {.name = "producer"});
  weir::Stream consumer(device, {.name = "consumer"});
  auto data = weir::empty<float>(producer, n);
  auto result = weir::empty<float>(consumer, n);

  // A TimedEvent also takes the time at which the stream reaches it.
  weir::TimedEvent start(device);
  weir::TimedEvent produced(device);

  producer.record(start);
  weir::launch(producer, n, Produce{}, weir::out(data));
  producer.record(produced);

  // Later work of the consumer waits for what the producer had been given when the event was recorded. This holds for
  // the allocation of `data` too: it belongs to the producer's stream.
  consumer.wait(produced);
  weir::launch(consumer, n, Consume{}, weir::in(data), weir::out(result));
  weir::Event consumed = consumer.record();

  // The host is free until here. It can wait for one event rather than for everything.
  consumed.synchronize();
  const std::vector<float> values = result.to_host();

  const weir::Milliseconds time = weir::elapsed(start, produced);
  if (time.count() < 0.0f) {
    std::printf("the producer took %g ms: wrong\n", time.count());
    return 1;
  }
  for (std::size_t i = 0; i < n; ++i) {
    if (values[i] != static_cast<float>(i) + 1.0f) {
      std::printf("result[%zu] is %g: wrong\n", i, values[i]);
      return 1;
    }
  }
  std::printf("%s: produced in %.3f ms, consumed after it, result[41] = %g\n", device.name().c_str(), time.count(),
              values[41]);
  return 0;
}
