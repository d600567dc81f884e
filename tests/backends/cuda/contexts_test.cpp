// Threads that have a context of their own, as by cuCtxCreate: Weir's things are in the primary ones, and the thread's stays current.
#include <gtest/gtest.h>

#include <cuda.h>

#include <functional>
#include <numeric>
#include <thread>
#include <vector>

#include <weir/weir.hpp>

#include "support/gate.hpp"

namespace weir_test {
namespace {

weir::Device gpu() { return weir::devices("cuda").at(0); }

struct AddTwo {
  WEIR_KERNEL void operator()(std::size_t i, weir::View<int> x) const { x[i] += 2; }
};

/// In a thread that has a context of its own from its first call on. The fake refuses all calls there.
void in_own_context(const std::function<void()>& body) {
  std::thread([&] {
    int place = 0;
    const auto own = reinterpret_cast<CUcontext>(&place);
    ASSERT_EQ(cuCtxSetCurrent(own), CUDA_SUCCESS);
    EXPECT_NO_THROW(body());
    CUcontext present = nullptr;
    ASSERT_EQ(cuCtxGetCurrent(&present), CUDA_SUCCESS);
    EXPECT_EQ(present, own) << "the thread's own is current as before";
  }).join();
}

TEST(Contexts, of_a_threads_own_hold_nothing_of_a_stream_that_it_makes) {
  in_own_context([] {
    const weir::Stream s(gpu());
    const auto x = weir::zeros<int>(s, 1000);
    weir::launch(s, x.size(), AddTwo{}, weir::inout(x));
    s.synchronize();
    EXPECT_TRUE(s.done());
    EXPECT_EQ(x.to_host().at(999), 2);
  });
}

TEST(Contexts, of_a_threads_own_take_no_part_in_copies) {
  in_own_context([] {
    const weir::Stream s(gpu());
    for (const std::size_t n : {100u, 1u << 20}) {
      std::vector<int> from(n);
      std::iota(from.begin(), from.end(), 1);
      const auto x = weir::zeros<int>(s, n);
      const auto pinned = weir::zeros<int>(weir::pinned, n);
      std::vector<int> to(n);
      weir::copy(s, x, from);
      weir::copy(s, pinned, x);
      weir::fill(s, x, 0);
      weir::copy(s, x, pinned);
      weir::copy(s, to, x);
      s.synchronize();
      EXPECT_EQ(to, from);
    }
  });
}

TEST(Contexts, of_a_threads_own_take_no_part_in_order_between_streams) {
  in_own_context([] {
    const weir::Stream a(gpu()), b(gpu(), {.blocking = false});
    const weir::Stream cpu(weir::devices("cpu").at(0));
    const weir::Event event(gpu());
    const weir::TimedEvent begin(gpu()), end(gpu());
    Marker marker;
    a.record(begin);
    mark(a, marker);
    a.record(event);
    b.wait(event);
    b.wait(cpu);
    cpu.wait(b);
    a.record(end);
    event.synchronize();
    EXPECT_TRUE(event.done());
    end.synchronize();
    EXPECT_GE(weir::elapsed(begin, end).count(), 0);
    weir::host_call(b, [&] { marker.set(marker.value() + 1); });
    b.synchronize();
    cpu.synchronize();
    EXPECT_EQ(marker.value(), 2);
    gpu().synchronize();
  });
}

TEST(Contexts, of_a_threads_own_take_no_part_in_graphs_and_pools) {
  in_own_context([] {
    const weir::Stream s(gpu());
    const weir::Pool pool(gpu());
    {
      const auto x = weir::empty<int>(s, 4096, pool);
      weir::fill(s, x, 1);
      const weir::Graph graph = weir::capture(s, [&] { weir::launch(s, x.size(), AddTwo{}, weir::inout(x)); });
      graph.launch(s);
      graph.launch(s);
      weir::GraphBuilder builder(gpu());
      builder.launch(x.size(), AddTwo{}, weir::inout(x));
      builder.build().launch(s);
      s.synchronize();
      EXPECT_EQ(x.to_host().at(4095), 7);
    }
    pool.trim();
  });
}

}  // namespace
}  // namespace weir_test
