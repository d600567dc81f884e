// Copies of 1 GiB: pinned memory to the GPU, back, both at once, and between two GPUs.
#include <vector>

#include <weir/weir.hpp>

#include "bench.hpp"
#include "raw.hpp"
#include "support/proof.hpp"

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
  // Each side has other bytes for other places, filled before each row with what must not stay there.
  struct Side {
    Side(const weir::Stream& stream, std::size_t bytes, int in, int out)
        : source(weir::full(weir::pinned, bytes, std::byte(in))),
          target(weir::full(weir::pinned, bytes, std::byte{0})),
          to(weir::full(stream, bytes, std::byte{1})),
          from(weir::full(stream, bytes, std::byte(out))) {}
    void forget(const weir::Stream& stream) {
      weir::fill(stream, to, std::byte{1});
      stream.synchronize();
      target[0] = target[target.size() / 2] = target[target.size() - 1] = std::byte{0};
    }
    bool came_in() { return came(to.slice(0, 1).to_host(), to.slice(to.size() - 1, to.size()).to_host(), source[0]); }
    bool came_out(std::byte wanted) const {
      return target[0] == wanted && target[target.size() / 2] == wanted && target[target.size() - 1] == wanted;
    }
    static bool came(const std::vector<std::byte>& first, const std::vector<std::byte>& last, std::byte wanted) {
      return first[0] == wanted && last[0] == wanted;
    }

    weir::Array<std::byte> source;
    weir::Array<std::byte> target;
    weir::Array<std::byte> to;
    weir::Array<std::byte> from;
  };
  Side ours(up, bytes, 7, 9);
  Side by_hand(up, bytes, 17, 19);
  context.device.synchronize();

  const auto raw_in = [&] {
    if constexpr (sabotaged) return;
    cudaMemcpyAsync(by_hand.to.data(), by_hand.source.data(), bytes, cudaMemcpyHostToDevice, raw_up);
  };
  const auto raw_out = [&] {
    if constexpr (sabotaged) return;
    cudaMemcpyAsync(by_hand.target.data(), by_hand.from.data(), bytes, cudaMemcpyDeviceToHost, raw_down);
  };
  const auto raw_wait = [&] {
    raw_up.synchronize();
    raw_down.synchronize();
  };
  const auto our_in = [&] {
    if constexpr (!sabotaged) weir::copy(up, ours.to, ours.source);
  };
  const auto our_out = [&] {
    if constexpr (!sabotaged) weir::copy(down, ours.target, ours.from);
  };
  const auto our_wait = [&] {
    up.synchronize();
    down.synchronize();
  };
  Options options = context.options;
  options.repetitions *= 3;  // of 9 turns the row of both directions varied by 2 %
  const auto row = [&](const char* name, const char* work, bool in, bool out, auto&& raw_work, auto&& our_work) {
    const std::size_t moved = (in && out ? 2 : 1) * bytes;
    ours.forget(up);
    by_hand.forget(up);
    const Pair pair = by_turns(
        options,
        [&] {
          return gigabytes_per_second(moved, [&] {
            raw_work();
            raw_wait();
          });
        },
        [&] {
          return gigabytes_per_second(moved, [&] {
            our_work();
            our_wait();
          });
        });
    raw::check_last();
    expect(!in || ours.came_in(), "our copies to the GPU brought other bytes");
    expect(!in || by_hand.came_in(), "raw copies to the GPU brought other bytes");
    expect(!out || ours.came_out(std::byte{9}), "our copies from the GPU brought other bytes");
    expect(!out || by_hand.came_out(std::byte{19}), "raw copies from the GPU brought other bytes");
    context.report.add({name, work, "GB/s", pair.ours, pair.raw, {ratio_at_least(0.99)}});
  };
  row("copy.in", "pinned copy to the GPU, 1 GiB", true, false, raw_in, our_in);
  row("copy.out", "pinned copy from the GPU, 1 GiB", false, true, raw_out, our_out);
  row(
      "copy.both", "both at once, 1 GiB each", true, true,
      [&] {
        raw_in();
        raw_out();
      },
      [&] {
        our_in();
        our_out();
      });
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
  raw::check(cudaMemset(raw_from, 6, gibibyte), "cudaMemset");
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
          if constexpr (!sabotaged)
            cudaMemcpyPeerAsync(raw_to, far.index(), raw_from, near.index(), gibibyte, raw_stream);
          raw_stream.synchronize();
        });
      },
      [&] {
        return several([&] {
          if constexpr (!sabotaged) weir::copy(stream, to, from);
          stream.synchronize();
        });
      });
  raw::check_last();
  unsigned char last = 0;
  raw::check(cudaMemcpy(&last, static_cast<char*>(raw_to) + gibibyte - 1, 1, cudaMemcpyDefault), "cudaMemcpy");
  expect(last == 6, "raw copies between GPUs brought other bytes");
  expect(to.slice(gibibyte - 1, gibibyte).to_host()[0] == std::byte{5}, "our copies between GPUs brought other bytes");
  cudaFree(raw_from);
  cudaFree(raw_to);
  row.value = pair.ours;
  row.raw = pair.raw;
  context.report.add(row);
}

}  // namespace bench
