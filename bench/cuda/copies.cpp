// Copies of 1 GiB: pinned memory to the GPU, back, both at once, and between two GPUs.
#include <weir/weir.hpp>

#include "bench.hpp"
#include "raw.hpp"

namespace bench {

namespace {

constexpr std::size_t gibibyte = std::size_t{1} << 30;

template <class Work>
double gigabytes_per_second(std::size_t bytes, Work&& work) {
  return static_cast<double>(bytes) * 1e-9 / seconds(work);
}

}  // namespace

void pinned_copies(Context& context) {
  const weir::Stream up(context.device, {.blocking = false});
  const weir::Stream down(context.device, {.blocking = false});
  const raw::Stream raw_up;
  const raw::Stream raw_down;
  const std::size_t bytes = gibibyte / context.options.divide;
  const auto source = weir::full(weir::pinned, bytes, std::byte{7});
  const auto target = weir::full(weir::pinned, bytes, std::byte{0});
  const auto to = weir::full(up, bytes, std::byte{1});
  const auto from = weir::full(down, bytes, std::byte{9});
  context.device.synchronize();

  const auto raw_in = [&] { cudaMemcpyAsync(to.data(), source.data(), bytes, cudaMemcpyHostToDevice, raw_up); };
  const auto raw_out = [&] { cudaMemcpyAsync(target.data(), from.data(), bytes, cudaMemcpyDeviceToHost, raw_down); };
  const auto raw_wait = [&] {
    raw_up.synchronize();
    raw_down.synchronize();
  };
  const auto our_in = [&] { weir::copy(up, to, source); };
  const auto our_out = [&] { weir::copy(down, target, from); };
  const auto our_wait = [&] {
    up.synchronize();
    down.synchronize();
  };
  Options options = context.options;
  options.repetitions *= 3;  // of 9 turns the row of both directions varied by 2 %
  const auto row = [&](const char* name, const char* work, std::size_t moved, auto&& by_hand, auto&& ours) {
    const Pair pair = by_turns(
        options,
        [&] {
          return gigabytes_per_second(moved, [&] {
            by_hand();
            raw_wait();
          });
        },
        [&] {
          return gigabytes_per_second(moved, [&] {
            ours();
            our_wait();
          });
        });
    context.report.add({name, work, "GB/s", pair.ours, pair.raw, {ratio_at_least(0.99)}});
  };
  row("copy.in", "pinned copy to the GPU, 1 GiB", bytes, raw_in, our_in);
  row("copy.out", "pinned copy from the GPU, 1 GiB", bytes, raw_out, our_out);
  row(
      "copy.both", "both at once, 1 GiB each", 2 * bytes,
      [&] {
        raw_in();
        raw_out();
      },
      [&] {
        our_in();
        our_out();
      });
  raw::check_last();
  if (target[bytes - 1] != std::byte{9}) throw std::runtime_error("the copies brought wrong bytes");
}

void peer_copy(Context& context) {
  Row row{"copy.peer", "copy between two GPUs, 1 GiB", "GB/s", {}, {}, {ratio_at_least(0.99)}};
  if (!context.peer) {
    context.report.skip(row, "needs two GPUs, and there is one");
    return;
  }
  const weir::Device near = context.device;
  const weir::Device far = *context.peer;
  if (!weir::can_access_peer(near, far)) {
    context.report.skip(row, "these two GPUs do not reach each other");
    return;
  }
  if (!weir::peer_access_enabled(near, far)) weir::enable_peer_access(near, far);
  if (!weir::peer_access_enabled(far, near)) weir::enable_peer_access(far, near);
  const weir::Stream stream(near, {.blocking = false});
  const weir::Stream far_stream(far, {.blocking = false});
  const raw::Stream raw_stream;
  // The raw counterpart has memory of cudaMalloc, to which peer access of the context applies.
  void* raw_from = nullptr;
  void* raw_to = nullptr;
  raw::check(cudaSetDevice(far.index()), "cudaSetDevice");
  raw::check(cudaMalloc(&raw_to, gibibyte), "cudaMalloc");
  raw::check(cudaSetDevice(near.index()), "cudaSetDevice");
  raw::check(cudaMalloc(&raw_from, gibibyte), "cudaMalloc");
  const auto from = weir::full(stream, gibibyte, std::byte{5});
  const auto to = weir::full(far_stream, gibibyte, std::byte{0});
  weir::synchronize();
  // One copy is so short that what the host does first after a pause would show: 2 % for raw calls.
  const auto several = [](auto&& copy_and_wait) {
    constexpr std::size_t copies = 8;
    return gigabytes_per_second(copies * gibibyte, [&] {
      for (std::size_t i = 0; i < copies; ++i) copy_and_wait();
    });
  };
  const Pair pair = by_turns(
      context.options,
      [&] {
        return several([&] {
          cudaMemcpyPeerAsync(raw_to, far.index(), raw_from, near.index(), gibibyte, raw_stream);
          raw_stream.synchronize();
        });
      },
      [&] {
        return several([&] {
          weir::copy(stream, to, from);
          stream.synchronize();
        });
      });
  raw::check_last();
  cudaFree(raw_from);
  cudaFree(raw_to);
  row.value = pair.ours;
  row.raw = pair.raw;
  context.report.add(row);
  if (to.slice(gibibyte - 1, gibibyte).to_host()[0] != std::byte{5}) throw std::runtime_error("wrong bytes arrived");
}

}  // namespace bench
