// Streams, events and launches with one allocation failing.
#include <array>
#include <memory>
#include <optional>

#include "one_failure.hpp"

namespace weir_test {
namespace {

const weir::Device cpu = weir::device("cpu");

struct Throws {
  void operator()(std::size_t) const { throw std::runtime_error("the pipe burst, and it says so at length"); }
};
struct CountedKernel {
  Counted counted;
  std::array<char, 200> large{};
  void operator()(std::size_t) const {}
};
struct Blocks {
  WEIR_KERNEL void operator()(weir::Block& block, weir::View<int> x) const {
    block.each([&](std::size_t t) { x[t] = 1; });
  }
};

TEST(OneFailingAllocation, AStream) {
  with_every_allocation_failing([] { const weir::Stream s(cpu, {.name = "a stream with a rather long name"}); });
}

TEST(OneFailingAllocation, FortyStreams) {
  with_every_allocation_failing([] {
    std::vector<weir::Stream> all;
    for (int i = 0; i < 40; ++i) all.emplace_back(cpu);
    for (const weir::Stream& s : all) weir::launch(s, 1, CountedKernel{});
  });
}

TEST(OneFailingAllocation, Events) {
  with_every_allocation_failing([] {
    const weir::Stream s(cpu);
    weir::Event own(cpu);
    const weir::Event e = s.record();
    s.record(own);
    const weir::TimedEvent t = s.record_timed();
    const weir::TimedEvent u = s.record_timed();
    s.wait(e);
    s.wait(own);
    e.synchronize();
    u.synchronize();
    static_cast<void>(weir::elapsed(t, u));
    std::vector<weir::Event> many;
    for (int i = 0; i < 40; ++i) many.push_back(s.record());
  });
}

TEST(OneFailingAllocation, Order) {
  with_every_allocation_failing([] {
    const weir::Stream s(cpu), t(cpu, {.blocking = false});
    weir::launch(s, 1, CountedKernel{});
    t.wait(s);
    weir::launch(weir::legacy_stream(cpu), 1, CountedKernel{});
    {
      const weir::ScopedStream current(s);
      weir::launch(1, CountedKernel{});
    }
    s.synchronize();
    weir::synchronize();
    cpu.synchronize();
    static_cast<void>(s.done());
    static_cast<void>(weir::legacy_stream(cpu).done());
  });
}

TEST(OneFailingAllocation, ThePerThreadStream) {
  with_every_allocation_failing([] { weir::launch(weir::per_thread_stream(cpu), 1, CountedKernel{}); });
}

TEST(OneFailingAllocation, Launches) {
  const weir::Stream s(cpu);
  auto x = weir::zeros<int>(s, 64);
  with_every_allocation_failing([&] {
    for (int i = 0; i < 3; ++i) {
      weir::launch(s, 64, Set{}, weir::out(x), 1);
      weir::launch(s, weir::Extent{.size = {8, 8}, .name = "named"}, [c = Counted{}](weir::Index<2>) {});
      weir::launch(s, 1, CountedKernel{});
      weir::launch_blocks(s, {.blocks = 2, .threads = 32}, Blocks{}, weir::out(x));
    }
    s.synchronize();
  });
}

TEST(OneFailingAllocation, ManyLaunchesBehindAHeldOne) {
  with_every_allocation_failing([] {
    const weir::Stream s(cpu);
    for (int i = 0; i < 100; ++i) weir::launch(s, 1, CountedKernel{});
  });
}

TEST(OneFailingAllocation, HostFunctions) {
  const weir::Stream s(cpu);
  with_every_allocation_failing([&] {
    weir::host_call(s, [c = Counted{}] {});
    weir::external(s, [c = Counted{}](weir::NativeStream) {});
    s.synchronize();
  });
}

/// The failure comes, whatever fails besides.
template <class Wait>
void fails_as_promised(weir::Errc code, const Wait& wait) {
  try {
    wait();
  } catch (const weir::Error& error) {
    if (error.errc() == code) return;
    throw;
  }
  ADD_FAILURE() << "the failure was lost";
}

TEST(OneFailingAllocation, AKernelThatThrows) {
  const weir::Stream s(cpu);
  for (const Whose whose : {Whose::this_thread, Whose::others}) {
    with_every_allocation_failing(
        [&] {
          weir::launch(s, weir::Extent{.size = 1, .name = "a kernel with a long name that fails"}, Throws{});
          try {
            fails_as_promised(weir::Errc::kernel_failed, [&] { s.synchronize(); });
          } catch (const std::bad_alloc&) {
            fails_as_promised(weir::Errc::kernel_failed, [&] { s.synchronize(); });
          }
          s.synchronize();
        },
        whose);
    if (HasFailure()) return;
  }
}

TEST(OneFailingAllocation, AHostFunctionThatThrowsInAStreamThatOthersWaitFor) {
  const weir::Stream s(cpu), t(cpu);
  with_every_allocation_failing([&] {
    weir::host_call(s, [] { throw std::runtime_error("the pipe burst, and it says so at length"); });
    try {
      t.wait(s);
    } catch (const weir::Error&) {
      static_cast<void>(stop_failing());
      fails_as_promised(weir::Errc::host_function_failed, [&] { s.synchronize(); });
      throw std::bad_alloc();
    }
    for (const weir::Stream* stream : {&t, &s})
      fails_as_promised(weir::Errc::host_function_failed, [&] { stream->synchronize(); });
  });
}

TEST(OneFailingAllocation, ADeviceWithAFailedStreamThatIsGone) {
  with_every_allocation_failing([&] {
    bool launched = false;
    try {
      const weir::Stream s(cpu);
      weir::launch(s, 1, Throws{});
      launched = true;
    } catch (const std::exception&) {
      if (!launched) throw;
    }
    for (;;) {
      try {
        fails_as_promised(weir::Errc::kernel_failed, [&] { cpu.synchronize(); });
        return;
      } catch (const std::bad_alloc&) {
      }
    }
  });
}

}  // namespace
}  // namespace weir_test
