// The end of a process: the driver comes down in its exit handlers, and by then none of the library's threads calls it or ends.
#include <gtest/gtest.h>

#include <cuda_runtime_api.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <set>

#include <weir/weir.hpp>

#include "backends/cuda/streams/threads.hpp"
#include "support/between_looks.hpp"
#include "support/child.hpp"
#include "support/gate.hpp"
#include "support/thread_state.hpp"

namespace weir_test {
namespace {

std::atomic<pid_t> housekeeper{0};
std::atomic<bool> ending{false};
std::atomic<bool> ran_behind{false};

/// The housekeeping thread has a task when the process ends, and another one behind that.
WEIR_SCENE(cuda_ends_with_tasks) {
  static_cast<void>(cudaFree(nullptr));
  std::atexit([] {  // between the driver's handler and the library's, which has waited for the first task in vain
    ending = true;
    insist(eventually([] {
             const char state = state_of_thread(housekeeper);
             return state == '\0' || state == 'S';
           }),
           "the thread is through with the first task");
    insist(state_of_thread(housekeeper) == 'S', "it has not ended: with it ends what the driver keeps of it");
    insist(!ran_behind, "it takes no task any more");
  });
  const weir::Stream s(weir::devices("cuda").at(0));
  const auto x = weir::zeros<int>(s, 16);
  s.synchronize();
  auto task = weir::cuda::make_task([] {
    housekeeper = static_cast<pid_t>(syscall(SYS_gettid));
    for (int looks = 0; !ending; ++looks) weir_test::between_looks(looks);
  });
  weir::cuda::TaskThread::housekeeper().post(task);
  auto behind = weir::cuda::make_task([] { ran_behind = true; });
  weir::cuda::TaskThread::housekeeper().post(behind);
  insist(eventually([] { return housekeeper != 0; }), "the first task begins");
  std::exit(0);
}

TEST(ProcessEnd, threads_of_the_library_neither_go_on_nor_end_beside_the_drivers_end) {
  EXPECT_TRUE(ended_well(play("cuda_ends_with_tasks")));
}

std::set<long> threads_of_process() {
  std::set<long> all;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/task")) {
    all.insert(std::stol(entry.path().filename().string()));
  }
  return all;
}

/// A thread's first task comes in an exit handler that is called behind the library's.
WEIR_SCENE(cuda_posts_behind_the_end) {
  std::atexit([] {
    auto& thread = *new weir::cuda::TaskThread;
    const std::set<long> before = threads_of_process();
    auto task = weir::cuda::make_task([] { ran_behind = true; });
    thread.post(task);
    insist(eventually([&] {
             for (const long one : threads_of_process()) {
               if (before.count(one) == 0 && state_of_thread(one) != 'S') return false;
             }
             return true;
           }),
           "the new thread has looked what there is");
    insist(!ran_behind, "it does nothing");
  });
  const weir::Stream s(weir::devices("cuda").at(0));
  const auto x = weir::zeros<int>(s, 16);
  s.synchronize();
  std::exit(0);
}

TEST(ProcessEnd, threads_that_start_behind_it_do_nothing) {
  EXPECT_TRUE(ended_well(play("cuda_posts_behind_the_end")));
}

}  // namespace
}  // namespace weir_test
