// The end of a pool that was destroyed: whoever synchronises its device next deletes it.
#include <atomic>
#include <thread>

#include "backends/cpu/memory/cpu_pool.hpp"
#include "own_device.hpp"

namespace weir_test {
namespace {

using weir::cpu::CpuPool;

class PoolEnds : public OwnDevice {};

// ThreadSanitizer sees every touch of a pool that is not before its deletion, also where that came later this time.
TEST_F(PoolEnds, another_threads_synchronisation_may_delete_a_pool_as_soon_as_it_is_closed) {
  std::atomic<bool> over{false};
  std::atomic<int> looks{0};
  std::thread synchroniser([&] {
    while (!over) {
      device_.after_synchronize();
      ++looks;
    }
  });
  for (int i = 0; i < 50; ++i) {
    auto& pool = *new CpuPool(weir::cpu::backend(), device_, weir::PoolOptions{});
    device_.watch_pool(pool);
    const int before = looks;
    pool.close();
    // One look that began since finds it, if this thread's own did not.
    while (looks < before + 2) std::this_thread::yield();
  }
  over = true;
  synchroniser.join();
}

}  // namespace
}  // namespace weir_test
