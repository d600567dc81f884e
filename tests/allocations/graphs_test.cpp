// Captures, graphs and their files with one allocation failing.
#include <filesystem>
#include <string>

#include <unistd.h>

#include "one_failure.hpp"

namespace weir_test {
namespace {

const weir::Device cpu = weir::device("cpu");

struct Mine {
  Counted counted;
  void operator()(std::size_t) const {}
};
struct Saved {
  WEIR_KERNEL void operator()(std::size_t i, weir::View<int> x, int value) const { x[i] = value; }
};

/// A capture that is given up when a call of it fails.
template <class Body>
weir::Graph captured(const weir::Stream& s, const Body& body) {
  weir::capture_begin(s);
  EXPECT_TRUE(weir::is_capturing(s));
  try {
    body();
  } catch (...) {
    try {
      static_cast<void>(weir::capture_end(s));
    } catch (const std::exception&) {
    }
    throw;
  }
  return weir::capture_end(s);
}

TEST(OneFailingAllocation, ACapture) {
  const weir::Stream s(cpu), t(cpu);
  auto x = weir::zeros<int>(s, 8);
  cpu.synchronize();
  with_every_allocation_failing([&] {
    const weir::Graph graph = captured(s, [&] {
      weir::launch(s, 8, Set{}, weir::out(x), 1);
      weir::launch(s, weir::Extent{.size = 1, .name = "a kernel with a rather long name"}, Mine{});
      weir::host_call(s, [c = Counted{}] {});
      weir::external(s, [c = Counted{}](weir::NativeStream) {});
      t.wait(s);
      weir::launch(t, 1, Mine{});
      weir::fill(t, x, 3);
      s.wait(t);
      const weir::TimedEvent e = s.record_timed();
    });
    EXPECT_FALSE(weir::is_capturing(s));
    EXPECT_FALSE(weir::is_capturing(t));
    graph.launch(s);
    graph.launch(t);
    s.synchronize();
    t.synchronize();
  });
}

TEST(OneFailingAllocation, TheBeginningOfACapture) {
  with_every_allocation_failing([&] {
    const weir::Stream s(cpu);
    try {
      weir::capture_begin(s);
    } catch (...) {
      static_cast<void>(stop_failing());
      EXPECT_FALSE(weir::is_capturing(s));
      s.synchronize();
      throw std::bad_alloc();
    }
    const weir::Stream t(cpu, {.blocking = false});
    const weir::ScopedCapture other(t);
    static_cast<void>(weir::capture_end(s));
  });
}

TEST(OneFailingAllocation, MemoryInACapture) {
  const weir::Stream s(cpu);
  const weir::Pool pool(cpu);
  with_every_allocation_failing([&] {
    const weir::Graph graph = captured(s, [&] {
      auto x = weir::zeros<int>(s, 8);
      weir::launch(s, 8, Set{}, weir::out(x), 1);
      auto y = weir::zeros<int>(s, 8);
      y.free(s);
      void* data = pool.allocate(s, 1000);
      pool.free(s, data);
    });
    graph.launch(s);
    s.synchronize();
  });
}

TEST(OneFailingAllocation, ControlFlowAndChildren) {
  const weir::Stream s(cpu);
  auto condition = weir::full<std::int32_t>(s, 1, 1);
  cpu.synchronize();
  const weir::Graph child = weir::capture(s, [&] { weir::launch(s, 1, Mine{}); });
  const int before = Counted::alive.load();
  Counted::alive -= before;
  with_every_allocation_failing([&] {
    const weir::Graph graph = captured(s, [&] {
      child.launch(s);
      weir::capture_if(
          s, condition, [&] { weir::launch(s, 1, Mine{}); }, [&] { child.launch(s); });
    });
    graph.launch(s);
    s.synchronize();
  });
  Counted::alive += before;
}

TEST(OneFailingAllocation, ABuilder) {
  const weir::Stream s(cpu);
  auto x = weir::zeros<int>(s, 8);
  auto condition = weir::full<std::int32_t>(s, 1, 1);
  const weir::Event e(cpu);
  cpu.synchronize();
  for (const auto dependencies : {weir::Dependencies::explicit_only, weir::Dependencies::inferred}) {
    with_every_allocation_failing([&] {
      weir::GraphBuilder b(cpu, dependencies);
      const auto a = b.launch(8, Set{}, weir::out(x), 1);
      const auto c = b.host_call([c = Counted{}] {});
      const auto d = b.fill(x, 5);
      b.depends(c, a);
      b.depends(d, {a, c});
      auto [mine, made] = b.allocate<int>(8);
      const auto use = b.launch(8, Set{}, weir::out(mine), 1);
      b.depends(use, made);
      b.depends(b.free(mine), use);
      b.if_(condition, [&] { b.launch(1, Mine{}); });
      b.record(e);
      b.wait(e);
      b.empty();
      const weir::Graph graph = b.build();
      graph.launch(s);
      s.synchronize();
      static_cast<void>(weir::to_dot(graph));
    });
    if (HasFailure()) return;
  }
}

TEST(OneFailingAllocation, Changes) {
  const weir::Stream s(cpu);
  auto x = weir::zeros<int>(s, 8), y = weir::zeros<int>(s, 8);
  cpu.synchronize();
  weir::GraphBuilder b(cpu);
  const auto launch = b.launch(8, Set{}, weir::out(x), 1);
  const auto call = b.host_call([] {});
  const auto fill = b.fill(y, 1);
  const auto copy = b.copy(x, y);
  b.depends(call, launch);
  b.depends(fill, call);
  b.depends(copy, fill);
  weir::Graph graph = b.build();
  with_every_allocation_failing([&] {
    graph.launch(s);
    graph.update(launch, weir::out(y), 2);
    graph.update(launch, 4, Set{}, weir::out(x), 2);
    graph.resize(launch, 8);
    graph.update_fill(fill, x, 4);
    graph.update_copy(copy, y, x);
    graph.disable(call);
    graph.enable(call);
    graph.launch(s);
    s.synchronize();
  });
}

TEST(OneFailingAllocation, AHostFunctionOfAGraphReplaced) {
  const weir::Stream s(cpu);
  with_every_allocation_failing([&] {
    weir::GraphBuilder b(cpu);
    const auto call = b.host_call([c = Counted{}] {});
    weir::Graph graph = b.build();
    graph.launch(s);
    graph.update_host_call(call, [c = Counted{}] {});
    graph.launch(s);
    s.synchronize();
  });
}

TEST(OneFailingAllocation, AGraphWhoseKernelThrows) {
  const weir::Stream s(cpu);
  const weir::Graph graph = weir::capture(
      s, [&] { weir::host_call(s, [] { throw std::runtime_error("the pipe burst, and it says so at length"); }); });
  with_every_allocation_failing([&] {
    graph.launch(s);
    for (;;) {
      try {
        s.synchronize();
        ADD_FAILURE() << "the failure was lost";
      } catch (const weir::Error& error) {
        EXPECT_EQ(error.errc(), weir::Errc::host_function_failed);
      } catch (const std::bad_alloc&) {
        continue;
      }
      return;
    }
  });
}

TEST(OneFailingAllocation, Files) {
  weir::register_kernel<Saved>("allocations.saved");
  const weir::Stream s(cpu);
  const std::filesystem::path path =
      std::filesystem::temp_directory_path() / ("weir_allocations." + std::to_string(getpid()));
  auto x = weir::full<int>(s, 8, 3);
  cpu.synchronize();
  weir::GraphBuilder b(cpu);
  const auto first = b.launch(8, Saved{}, weir::out(x), 1);
  b.depends(b.fill(x, 5), first);
  const weir::Graph graph = b.build();
  with_every_allocation_failing([&] { weir::save(graph, path, {{"x", x}}); });
  with_every_allocation_failing([&] {
    const weir::LoadedGraph loaded = weir::load_graph(path, cpu);
    loaded.graph.launch(s);
    s.synchronize();
  });
  std::filesystem::remove(path);
}

}  // namespace
}  // namespace weir_test
