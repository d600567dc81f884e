#include "backends/cuda/streams/time_reports.hpp"

#include <atomic>
#include <future>
#include <memory>
#include <utility>

#include "backends/cuda/streams/threads.hpp"

namespace weir::cuda {

namespace {
std::atomic<std::uint64_t> told{0};
}

void report(std::vector<RanAt> all) {
  auto task = make_task([all = std::move(all)] {
    for (const RanAt& one : all) {
      one.node ? detail::report_node_ran(one.id, one.stream, *one.node, one.span)
               : detail::report_ran(one.id, one.stream, one.span);
      told.fetch_add(1, std::memory_order_relaxed);
    }
  });
  TaskThread::reporter().post(task);
}

void wait_for_reports(std::chrono::nanoseconds longest) {
  auto done = std::make_shared<std::promise<void>>();
  auto task = make_task([done] { done->set_value(); });
  TaskThread::reporter().post(task);
  const std::future<void> all = done->get_future();
  std::uint64_t before = 0, now = told.load(std::memory_order_relaxed);
  do {
    before = now;
    if (all.wait_for(longest) == std::future_status::ready) return;
    now = told.load(std::memory_order_relaxed);
  } while (now != before);
}

}  // namespace weir::cuda
