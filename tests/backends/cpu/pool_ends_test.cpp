// The end of a pool that was destroyed: whoever synchronises its device next deletes it.
#include <thread>
#include <utility>
#include <vector>

#include "backends/cpu/memory/cpu_pool.hpp"
#include "own_device.hpp"
#include "support/between_looks.hpp"

namespace weir_test {
namespace {

using weir::cpu::CpuPool;
using weir::cpu::CpuQueue;

class PoolEnds : public OwnDevice {
 protected:
  /// One that synchronisations look at.
  CpuPool& make_pool() {
    auto& pool = *new CpuPool(weir::cpu::backend(), device_, weir::PoolOptions{});
    device_.watch_pool(pool);
    return pool;
  }
};

//  synchroniser: first, pool after pool that has something to look through ...... last: deleted
//  this thread:        sees that, closes the last one
// ThreadSanitizer sees every touch of a pool that is not ordered before its deletion, also where that came later this time.
TEST_F(PoolEnds, another_threads_synchronisation_may_delete_a_pool_as_soon_as_it_is_closed) {
  CpuQueue& queue = open();
  CpuPool& first = make_pool();
  std::vector<std::pair<CpuPool*, void*>> others;
  for (int i = 0; i < 150; ++i) {
    CpuPool& pool = make_pool();
    others.emplace_back(&pool, pool.allocate(queue, 512, "test", {}));
  }
  for (int round = 0; round < 5; ++round) {
    first.release_unshared(queue, true, queue.stream(), first.allocate(queue, 512, "test", {}), {});
    CpuPool& last = make_pool();
    std::thread synchroniser([&] { device_.after_synchronize(); });
    for (int looks = 0; first.statistics().reserved != 0; ++looks) weir_test::between_looks(looks);
    last.close();
    synchroniser.join();
  }
  for (const auto& [pool, data] : others) {
    pool->release_unshared(queue, true, queue.stream(), data, {});
    pool->close();
  }
  first.close();
}

}  // namespace
}  // namespace weir_test
