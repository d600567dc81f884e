// Prefetch: while one batch computes on one stream, the next is copied on another. Two buffers, ordered by events.
#include <array>
#include <cstdio>
#include <vector>

#include <weir/weir.hpp>

constexpr std::size_t batch_size = 200'000;
constexpr std::size_t batch_count = 16;

// Stands for reading a file or decoding a frame: batch b holds the value b + 1 everywhere.
void load_batch(std::size_t batch, weir::Array<double>& buffer) {
  for (double& value : buffer) value = static_cast<double>(batch + 1);
}

struct Slot {
  explicit Slot(weir::StreamRef stream)
      : staging(weir::empty<double>(weir::pinned, batch_size)),
        data(weir::empty<double>(stream, batch_size)),
        uploaded(stream.device()),
        consumed(stream.device()) {}

  weir::Array<double> staging;  // pinned: what the host fills and the copy reads
  weir::Array<double> data;     // on the device
  weir::Event uploaded;         // `data` is complete, and `staging` may be filled again
  weir::Event consumed;         // `data` may be overwritten
};

int main(int argc, char** argv) {
  const weir::Device device = argc > 1 ? weir::device(argv[1]) : weir::default_device();
  weir::Stream upload(device, {.name = "upload"});
  weir::Stream compute(device, {.name = "compute"});

  std::array<Slot, 2> slots = {Slot(upload), Slot(upload)};
  auto sums = weir::zeros<double>(compute, batch_count);

  for (std::size_t batch = 0; batch < batch_count; ++batch) {
    Slot& slot = slots[batch % slots.size()];

    // The host waits for the copy of two batches ago only. An event that was never recorded counts as reached, so the
    // first two batches need no special case.
    slot.uploaded.synchronize();
    load_batch(batch, slot.staging);

    upload.wait(slot.consumed);
    weir::copy(upload, slot.data, slot.staging);
    upload.record(slot.uploaded);

    compute.wait(slot.uploaded);
    weir::reduce(compute, slot.data, sums.slice(batch, batch + 1));
    compute.record(slot.consumed);
  }
  compute.synchronize();

  const std::vector<double> result = sums.to_host();
  for (std::size_t batch = 0; batch < batch_count; ++batch) {
    if (result[batch] != static_cast<double>((batch + 1) * batch_size)) {
      std::printf("the sum of batch %zu is %g: wrong\n", batch, result[batch]);
      return 1;
    }
  }
  std::printf("%s: %zu batches through 2 buffers, the last sum is %g\n", device.name().c_str(), batch_count,
              result[batch_count - 1]);
  return 0;
}
