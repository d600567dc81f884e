// Two devices: work on both at once, a copy between them, and an event that orders one device's stream after the
// other's.
#include <cstdio>
#include <cstdlib>
#include <vector>

#include <weir/weir.hpp>

struct Scale {
  WEIR_KERNEL void operator()(std::size_t i, float factor, weir::View<float> data) const { data[i] *= factor; }
};

int main(int argc, char** argv) {
  // On the CPU, its cores are split between two devices, unless the environment says otherwise.
  setenv("WEIR_CPU_DEVICES", "2", /*overwrite=*/0);
  const weir::Device wanted = argc > 1 ? weir::device(argv[1]) : weir::default_device();
  const std::vector<weir::Device> devices = weir::devices(wanted.backend());
  if (devices.size() < 2) {
    std::printf("%s is the only device of its kind here: nothing to show\n", devices.front().name().c_str());
    return 0;
  }
  const weir::Device first = devices[0];
  const weir::Device second = devices[1];
  constexpr std::size_t n = 1'000'000;

  // Streams, events and arrays belong to a device.
  weir::Stream stream0(first);
  weir::Stream stream1(second);
  auto a0 = weir::ones<float>(stream0, n);
  auto a1 = weir::ones<float>(stream1, n);

  // Both devices work at the same time.
  weir::launch(stream0, n, Scale{}, 3.0f, weir::inout(a0));
  weir::launch(stream1, n, Scale{}, 5.0f, weir::inout(a1));

  // A copy between devices waits for its own stream only. An event may be waited for by a stream of any device.
  auto from_first = weir::empty<float>(stream1, n);
  weir::Event ready = stream0.record();
  stream1.wait(ready);
  weir::copy(stream1, from_first, a0);
  weir::launch(stream1, n, Scale{}, 2.0f, weir::inout(from_first));

  // The array of the first device must not change before the copy has read it.
  stream0.wait(stream1);
  weir::launch(stream0, n, Scale{}, 100.0f, weir::inout(a0));
  weir::synchronize();

  const float on_first = a0.to_host()[n - 1];
  const float on_second = a1.to_host()[n - 1];
  const float copied = from_first.to_host()[n - 1];
  std::printf("%s: %g, %s: %g, copied and doubled: %g\n", first.name().c_str(), on_first, second.name().c_str(),
              on_second, copied);
  return on_first == 300.0f && on_second == 5.0f && copied == 6.0f ? 0 : 1;
}
