// Streams, events, host functions and stream-ordered memory, beside the driver's own calls.
#include <deque>
#include <limits>
#include <string>
#include <utility>

#include <weir/cuda_interop.hpp>
#include <weir/weir.hpp>

#include "bursts.hpp"
#include "raw.hpp"
#include "support/proof.hpp"

namespace bench {

namespace {

/// Hops of raw CUDA there and back between two streams.
struct RawHops {
  RawHops(cudaStream_t one, cudaStream_t other) : a(one), b(other) {}
  void operator()() const {
    const raw::Driver& driver = raw::driver();
    driver.record_event(event, a);
    driver.wait_for_event(b, event, 0);
    driver.record_event(event, b);
    driver.wait_for_event(a, event, 0);
  }
  void wait() const {
    raw::driver().synchronize_stream(a);
    raw::driver().synchronize_stream(b);
  }
  std::pair<cudaStream_t, cudaStream_t> streams() const { return {a, b}; }

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
  std::pair<cudaStream_t, cudaStream_t> streams() const { return {weir::cuda::native(a), weir::cuda::native(b)}; }

  weir::Stream a;
  weir::Stream b;
  weir::Event event;
};

/// Whether a hop there and back orders what is before and behind it: long copies on the one stream, then on the other, then
/// on the one again, each from where the last one put its bytes.
template <class Hops>
void prove(const Hops& hops, const std::string& whose) {
  constexpr std::size_t bytes = std::size_t{64} << 20;
  const auto [a, b] = hops.streams();
  void* memory[3] = {};
  for (void*& one : memory) {
    raw::check(cudaMalloc(&one, bytes), "cudaMalloc");
    raw::check(cudaMemset(one, 0, bytes), "cudaMemset");
  }
  raw::check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
  unsigned char last = 0;
  cudaMemsetAsync(memory[0], 1, bytes, a);
  cudaMemsetAsync(memory[0], 2, bytes, a);
  cudaMemsetAsync(memory[0], 7, bytes, a);
  if constexpr (!sabotaged) hops();  // behind it both streams come behind both
  cudaMemcpyAsync(memory[1], memory[0], bytes, cudaMemcpyDeviceToDevice, b);
  cudaMemcpyAsync(&last, static_cast<char*>(memory[1]) + bytes - 1, 1, cudaMemcpyDeviceToHost, b);
  raw::check(cudaStreamSynchronize(b), "cudaStreamSynchronize");
  raw::check(cudaStreamSynchronize(a), "cudaStreamSynchronize");
  expect(last == 7, whose + " hop does not order two streams");
  for (void* one : memory) raw::check(cudaFree(one), "cudaFree");
}

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
  prove(ours.all().front(), "our");
  prove(by_hand.all().front(), "a raw");
  context.report.add({"hop",
                      "record and wait hop between streams",
                      "us",
                      pair.ours,
                      pair.raw,
                      {ratio_at_most(1.15), ahead_of(0.56, 0.29, pair, "us")},
                      "Numba 2.76, CuPy 0.56, PyTorch 1.52 us"});
  prove(ours.all().back(), "our");
  prove(raw_there.all().back(), "a raw");
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
  const auto usable = [&](void* data, unsigned char value, const char* what) {
    unsigned char ends[2] = {};
    cudaMemsetAsync(data, sabotaged ? 0 : value, bytes, raw_stream);
    cudaMemcpyAsync(&ends[0], data, 1, cudaMemcpyDeviceToHost, raw_stream);
    cudaMemcpyAsync(&ends[1], static_cast<char*>(data) + bytes - 1, 1, cudaMemcpyDeviceToHost, raw_stream);
    raw_stream.synchronize();
    expect(data != nullptr && ends[0] == value && ends[1] == value, what);
  };
  const auto prove = [&] {
    void* one = pool.allocate(stream, bytes);
    void* by_hand = nullptr;
    cudaMallocFromPoolAsync(&by_hand, bytes, raw_pool, raw_stream);
    stream.synchronize();
    usable(one, 1, "our memory is not there");
    usable(by_hand, 2, "raw memory is not there");
    pool.free(stream, one);
    cudaFreeAsync(by_hand, raw_stream);
    raw_stream.synchronize();
    raw::check_last();
  };
  prove();
  context.report.add({"allocate",
                      "allocate and free 1 MiB on a stream",
                      "us",
                      pointers.ours,
                      pointers.raw,
                      {ratio_at_most(1.0), ahead_of(0.53, 0.55, pointers, "us")},
                      "CuPy 0.53, PyTorch 1.73 us"});
  prove();
  context.report.add({"allocate.array", "the same by weir::empty", "us", arrays.ours, arrays.raw, {}});
  cudaMemPoolDestroy(raw_pool);
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
  int ran = 0;
  {
    const weir::Stream stream(context.device, {.blocking = false});
    if constexpr (!sabotaged) weir::host_call(stream, [&ran] { ran = 1; });
    stream.synchronize();
  }
  expect(ran == 1, "nothing runs in a stream that was taken");
  context.report.add({"streams", "take and drop a stream", "us", pair.ours, pair.raw, {at_most(0.5, "us")}});
}

void host_function(Context& context) {
  const weir::Stream stream(context.device, {.blocking = false});
  const raw::Stream raw_stream;
  int raw_hits = 0;
  int our_hits = 0;
  int raw_calls = 0;
  int our_calls = 0;
  constexpr std::size_t count = 200;
  const auto none = [] {};
  const auto raw_once = [&] {
    ++raw_calls;
    const auto hit = [](void* hits) { *static_cast<int*>(hits) += sabotaged ? 0 : 1; };
    raw::driver().launch_host_function(raw_stream, hit, &raw_hits);
    raw::driver().synchronize_stream(raw_stream);
  };
  const auto our_once = [&] {
    ++our_calls;
    weir::host_call(stream, [&our_hits] { our_hits += sabotaged ? 0 : 1; });
    stream.synchronize();
  };
  const Pair pair = by_turns(
      bursts(context), [&] { return whole_cost(count, raw_once, none); },
      [&] { return whole_cost(count, our_once, none); });
  raw::check_last();
  expect(our_hits == our_calls && our_calls > 0, "not every host function of ours was called");
  expect(raw_hits == raw_calls && raw_calls > 0, "not every raw host function was called");
  context.report.add({"host_function", "host function, and wait", "us", pair.ours, pair.raw, {ratio_at_most(1.1)}});
}

}  // namespace bench
