// Threads that have a context of their own, by cuCtxCreate: Weir's things are in the primary ones, live on when that context is
// gone, and it stays the thread's current one.
#include <cuda.h>
#include <cuda_runtime_api.h>

#include <functional>
#include <numeric>
#include <optional>
#include <thread>
#include <vector>

#include "on_gpu.hpp"
#include "support/gate.hpp"

namespace weir_test {
namespace {

struct AddThree {
  WEIR_KERNEL void operator()(std::size_t i, weir::View<int> x) const { x[i] += 3; }
};

/// The driver's function as it was in that version.
template <class Function>
Function find(const char* name, [[maybe_unused]] unsigned version = 12000) {
  void* found = nullptr;
  cudaDriverEntryPointQueryResult result = cudaDriverEntryPointSymbolNotFound;
#if CUDART_VERSION >= 12050
  EXPECT_EQ(cudaGetDriverEntryPointByVersion(name, &found, version, cudaEnableDefault, &result), cudaSuccess);
#else
  EXPECT_EQ(cudaGetDriverEntryPoint(name, &found, cudaEnableDefault, &result), cudaSuccess);
#endif
  EXPECT_EQ(result, cudaDriverEntryPointSuccess) << name;
  return reinterpret_cast<Function>(found);
}

class Contexts : public OnGpu {
 protected:
  /// In a thread that has a context of its own from its first call on; it is gone behind it.
  static void in_own_context(const std::function<void()>& body) {
    const auto create = find<CUresult (*)(CUcontext*, unsigned, CUdevice)>("cuCtxCreate", 3020);
    const auto current = find<CUresult (*)(CUcontext*)>("cuCtxGetCurrent");
    const auto destroy = find<CUresult (*)(CUcontext)>("cuCtxDestroy");
    std::thread([&] {
      CUcontext own = nullptr;
      ASSERT_EQ(create(&own, 0, 0), CUDA_SUCCESS);
      EXPECT_NO_THROW(body());
      CUcontext present = nullptr;
      EXPECT_EQ(current(&present), CUDA_SUCCESS);
      EXPECT_EQ(present, own) << "the thread's own is current as before";
      EXPECT_EQ(destroy(own), CUDA_SUCCESS);
    }).join();
  }
};

TEST_F(Contexts, of_a_threads_own_take_nothing_with_them) {
  std::optional<weir::Stream> s, t;
  std::optional<weir::Array<int>> x;
  in_own_context([&] {
    s.emplace(device());
    t.emplace(device(), weir::StreamOptions{.blocking = false});
    x.emplace(weir::zeros<int>(*s, 1000));
    weir::launch(*s, x->size(), AddThree{}, weir::inout(*x));
    t->wait(*s);
    weir::launch(*t, x->size(), AddThree{}, weir::inout(*x));
    t->synchronize();
    EXPECT_EQ(x->to_host(), std::vector<int>(1000, 6));
  });
  s->wait(*t);
  weir::launch(*s, x->size(), AddThree{}, weir::inout(*x));
  EXPECT_EQ(x->to_host(), std::vector<int>(1000, 9));
  const weir::Stream next(device());
  weir::fill(next, *x, 1);
  EXPECT_EQ(x->to_host(), std::vector<int>(1000, 1));
}

TEST_F(Contexts, of_a_threads_own_take_no_part_in_copies_and_host_functions) {
  in_own_context([&] {
    const weir::Stream s(device());
    for (const std::size_t n : {std::size_t{100}, std::size_t{1} << 20}) {
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
      EXPECT_EQ(to, from);
    }
    bool called = false;
    weir::host_call(s, [&] { called = true; });
    s.synchronize();
    EXPECT_TRUE(called);
  });
}

// Their handles mean the streams of the context that is current.
TEST_F(Contexts, of_a_threads_own_take_no_part_in_the_legacy_stream) {
  Marker marker;
  in_own_context([&] {
    const weir::StreamRef legacy = weir::legacy_stream(device());
    const weir::Stream s(device());
    Gate gate;
    gate.hold(s);
    mark(legacy, marker);
    const weir::Event behind = legacy.record();
    EXPECT_FALSE(behind.done());
    EXPECT_TRUE(stays(device(), [&] { return marker.value() == 0; })) << "it did not wait for the blocking stream";
    gate.open();
    legacy.synchronize();
    EXPECT_EQ(marker.value(), 1);
    EXPECT_TRUE(behind.done());
  });
}

TEST_F(Contexts, of_a_threads_own_take_no_part_in_graphs_and_pools) {
  in_own_context([&] {
    const weir::Stream s(device());
    const weir::Pool pool(device());
    {
      const auto x = weir::empty<int>(s, 4096, pool);
      weir::fill(s, x, 1);
      const weir::Graph captured = weir::capture(s, [&] { weir::launch(s, x.size(), AddThree{}, weir::inout(x)); });
      captured.launch(s);
      weir::GraphBuilder builder(device());
      const auto node = builder.launch(x.size(), AddThree{}, weir::inout(x));
      weir::Graph built = builder.build();
      built.launch(s);
      built.update(node, weir::inout(x));
      built.launch(s);
      s.synchronize();
      EXPECT_EQ(x.to_host(), std::vector<int>(4096, 10));
    }
    pool.trim();
    device().synchronize();
  });
}

}  // namespace
}  // namespace weir_test
