// Arrays, pools and copies with one allocation failing.
#include <vector>

#include <weir/dlpack.hpp>

#include "one_failure.hpp"

namespace weir_test {
namespace {

const weir::Device cpu = weir::device("cpu");

TEST(OneFailingAllocation, Arrays) {
  const weir::Stream s(cpu), t(cpu);
  with_every_allocation_failing([&] {
    auto a = weir::empty<int>(s, 100);
    auto b = weir::zeros<int>(s, {10, 10});
    auto c = weir::full<int>(cpu, 100, 7);
    auto d = weir::from(s, std::vector<int>(100, 1));
    weir::launch(t, 100, Set{}, weir::out(a), 1);
    a.free(s);
    static_cast<void>(c.to_host());
    static_cast<void>(d.slice(1, 5).to_host());
  });
}

TEST(OneFailingAllocation, HostMemory) {
  with_every_allocation_failing([&] {
    auto a = weir::zeros<int>(weir::pinned, 100);
    auto b = weir::zeros<int>(weir::host, 100);
    weir::copy(a, b);
    std::vector<int> mine(1000);
    const weir::ScopedPin pinned(mine);
  });
}

TEST(OneFailingAllocation, Copies) {
  const weir::Stream s(cpu);
  auto a = weir::zeros<int>(s, 1000), b = weir::zeros<int>(s, 1000);
  auto pinned = weir::zeros<int>(weir::pinned, 1000);
  std::vector<int> pageable(1000), large(1 << 20);
  auto c = weir::zeros<int>(s, large.size());
  with_every_allocation_failing([&] {
    weir::copy(s, a, b);
    weir::copy(s, a, pinned);
    weir::copy(s, pinned, a);
    weir::copy(s, a, pageable);
    weir::copy(s, pageable, a);
    weir::copy(s, c, large);
    weir::fill(s, a, 1);
    weir::fill(s, pageable, 1);
    s.synchronize();
  });
}

TEST(OneFailingAllocation, Pools) {
  const weir::Stream s(cpu);
  with_every_allocation_failing([&] {
    const weir::Pool pool(cpu, {.release_threshold = 1 << 20, .max_size = 0, .name = "a pool with a rather long name"});
    void* a = pool.allocate(s, 1000);
    try {
      void* b = pool.allocate(s, 100000);
      pool.free(s, b);
    } catch (...) {
      pool.free(s, a);
      throw;
    }
    pool.free(s, a);
    pool.trim();
    static_cast<void>(pool.statistics());
  });
}

TEST(OneFailingAllocation, Algorithms) {
  const weir::Stream s(cpu);
  auto x = weir::full<int>(s, 10000, 1), y = weir::zeros<int>(s, 10000), sum = weir::zeros<int>(s, 1);
  with_every_allocation_failing([&] {
    weir::reduce(s, x, sum);
    weir::inclusive_scan(s, x, y);
    s.synchronize();
  });
}

TEST(OneFailingAllocation, TensorsOfOtherLibraries) {
  const weir::Stream s(cpu);
  auto x = weir::full<float>(s, 100, 1.0f);
  with_every_allocation_failing([&] {
    auto* tensor = weir::to_dlpack<weir::dlpack::DLManagedTensorVersioned>(x);
    const auto take = [&] {
      try {
        return weir::from_dlpack<float>(tensor, s);
      } catch (...) {
        tensor->deleter(tensor);
        throw;
      }
    };
    static_cast<void>(take().to_host());
  });
}

}  // namespace
}  // namespace weir_test
