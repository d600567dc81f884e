// Streams, events, host functions and stream-ordered memory, beside the driver's own calls.
#include <deque>
#include <limits>
#include <utility>

#include <weir/cuda_interop.hpp>
#include <weir/weir.hpp>

#include "bursts.hpp"
#include "raw.hpp"

namespace bench {

namespace {

/// Hops of raw CUDA there and back between two streams.
struct RawHops {
  RawHops(cudaStream_t one, cudaStream_t other) : a(one), b(other) {}
  void operator()() const {
    cudaEventRecord(event, a);
    cudaStreamWaitEvent(b, event, 0);
    cudaEventRecord(event, b);
    cudaStreamWaitEvent(a, event, 0);
  }
  void wait() const {
    cudaStreamSynchronize(a);
    cudaStreamSynchronize(b);
  }

  cudaStream_t a;
  cudaStream_t b;
  raw::Event event;
};

struct OurHops {
  explicit OurHops(weir::Device device)
      : a(device, {.blocking = false}), b(device, {.blocking = false}), event(device) {}
  void operator()() const {
    a.record(event);
    b.wait(event);
    b.record(event);
    a.wait(event);
  }
  void wait() const {
    a.synchronize();
    b.synchronize();
  }

  weir::Stream a;
  weir::Stream b;
  weir::Event event;
};

/// Hops between several pairs of streams by turns: what one costs depends on the driver's channels that its streams got.
template <class Hops>
class Pairs {
 public:
  static constexpr std::size_t count = 8;

  template <class... Arguments>
  void add(Arguments&&... arguments) {
    pairs_.emplace_back(std::forward<Arguments>(arguments)...);
    figure(pairs_.back());  // what is made at the first use is there then
  }
  double next() { return figure(pairs_[turn_++ % pairs_.size()]); }
  const std::deque<Hops>& all() const { return pairs_; }

 private:
  static double figure(const Hops& hops) {
    return whole_cost(250, hops, [&] { hops.wait(); }) / 2;
  }

  std::deque<Hops> pairs_;
  std::size_t turn_ = 0;
};

}  // namespace

void hop(Context& context) {
  std::deque<raw::Stream> raw_streams;
  Pairs<OurHops> ours;
  Pairs<RawHops> by_hand;
  Pairs<RawHops> raw_there;
  for (std::size_t i = 0; i < Pairs<OurHops>::count; ++i) {
    const auto add_by_hand = [&] {
      raw_streams.resize(raw_streams.size() + 2);
      by_hand.add(raw_streams.end()[-2], raw_streams.end()[-1]);
    };
    if (i % 2 == 0) add_by_hand();  // neither side always gets the channels that come first
    ours.add(context.device);
    raw_there.add(weir::cuda::native(ours.all()[i].a), weir::cuda::native(ours.all()[i].b));
    if (i % 2 == 1) add_by_hand();
  }
  const auto our_figure = [&] { return ours.next(); };
  const Pair pair = by_turns(
      bursts(context), [&] { return by_hand.next(); }, our_figure);
  const Pair there = by_turns(
      bursts(context), [&] { return raw_there.next(); }, our_figure);
  raw::check_last();
  context.report.add({"hop",
                      "record and wait hop between streams",
                      "us",
                      pair.ours,
                      pair.raw,
                      {ratio_at_most(1.15), ahead_of(0.56, 0.29, pair, "us")},
                      "Numba 2.76, CuPy 0.56, PyTorch 1.52 us"});
  context.report.add({"hop.there", "the same, raw calls on Weir's streams", "us", there.ours, there.raw, {}});
}

void allocate(Context& context) {
  const weir::Stream stream(context.device, {.blocking = false});
  const weir::PoolRef pool = weir::default_pool(context.device);
  const raw::Stream raw_stream;
  cudaMemPool_t raw_pool = nullptr;
  const cudaMemPoolProps properties = [&] {
    cudaMemPoolProps p{};
    p.allocType = cudaMemAllocationTypePinned;
    p.location = {cudaMemLocationTypeDevice, context.device.index()};
    return p;
  }();
  raw::check(cudaMemPoolCreate(&raw_pool, &properties), "cudaMemPoolCreate");
  std::uint64_t keep = std::numeric_limits<std::uint64_t>::max();
  raw::check(cudaMemPoolSetAttribute(raw_pool, cudaMemPoolAttrReleaseThreshold, &keep), "cudaMemPoolSetAttribute");
  constexpr std::size_t bytes = 1 << 20;
  constexpr std::size_t count = 500;
  const auto raw_once = [&] {
    void* data = nullptr;
    cudaMallocFromPoolAsync(&data, bytes, raw_pool, raw_stream);
    cudaFreeAsync(data, raw_stream);
  };
  const auto raw_figure = [&] { return whole_cost(count, raw_once, [&] { raw_stream.synchronize(); }); };
  const auto wait = [&] { stream.synchronize(); };
  const Pair pointers = by_turns(bursts(context), raw_figure, [&] {
    return whole_cost(
        count, [&] { pool.free(stream, pool.allocate(stream, bytes)); }, wait);
  });
  const Pair arrays = by_turns(bursts(context), raw_figure, [&] {
    return whole_cost(
        count, [&] { weir::empty<std::byte>(stream, bytes); }, wait);
  });
  raw_stream.synchronize();
  raw::check_last();
  cudaMemPoolDestroy(raw_pool);
  context.report.add({"allocate",
                      "allocate and free 1 MiB on a stream",
                      "us",
                      pointers.ours,
                      pointers.raw,
                      {ratio_at_most(1.0), ahead_of(0.53, 0.55, pointers, "us")},
                      "CuPy 0.53, PyTorch 1.73 us"});
  context.report.add({"allocate.array", "the same by weir::empty", "us", arrays.ours, arrays.raw, {}});
}

void streams(Context& context) {
  constexpr std::size_t count = 50;
  const auto none = [] {};
  const auto raw_once = [] {
    cudaStream_t stream = nullptr;
    cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
    cudaStreamDestroy(stream);
  };
  const auto our_once = [&] { const weir::Stream stream(context.device, {.blocking = false}); };
  const Pair pair = by_turns(
      bursts(context), [&] { return whole_cost(count, raw_once, none); },
      [&] { return whole_cost(count, our_once, none); });
  raw::check_last();
  context.report.add({"streams", "take and drop a stream", "us", pair.ours, pair.raw, {at_most(0.5, "us")}});
}

void host_function(Context& context) {
  const weir::Stream stream(context.device, {.blocking = false});
  const raw::Stream raw_stream;
  static int hits = 0;
  constexpr std::size_t count = 200;
  const auto none = [] {};
  const auto raw_once = [&] {
    cudaLaunchHostFunc(
        raw_stream, [](void*) { ++hits; }, nullptr);
    cudaStreamSynchronize(raw_stream);
  };
  const auto our_once = [&] {
    weir::host_call(stream, [] { ++hits; });
    stream.synchronize();
  };
  const Pair pair = by_turns(
      bursts(context), [&] { return whole_cost(count, raw_once, none); },
      [&] { return whole_cost(count, our_once, none); });
  raw::check_last();
  context.report.add({"host_function", "host function, and wait", "us", pair.ours, pair.raw, {ratio_at_most(1.1)}});
}

}  // namespace bench
