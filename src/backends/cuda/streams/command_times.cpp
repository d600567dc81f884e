// What becomes of batches of commands, and how commands get their places in them.
#include "backends/cuda/streams/command_times.hpp"

#include <algorithm>
#include <atomic>
#include <thread>
#include <utility>
#include <vector>

#include "backends/cuda/cuda_device.hpp"
#include "backends/cuda/cuda_error.hpp"
#include "backends/cuda/streams/cuda_queue.hpp"
#include "backends/cuda/streams/host_functions.hpp"
#include "backends/cuda/streams/poller.hpp"
#include "backends/cuda/streams/threads.hpp"
#include "backends/cuda/streams/time_reports.hpp"
#include "backends/cuda/streams/timed_batch.hpp"

namespace weir::cuda {

using Clock = std::chrono::steady_clock;
using How = TimedCommand::How;

cudaError_t TimedBatch::state(std::size_t& count) noexcept {
  count = queue_.times().count_of(*this);
  if (!has_settled(count)) return cudaErrorNotReady;
  // The stream may be at something of the library's own, as the end of memory, which says nothing of commands.
  if (known_over_.load(std::memory_order_acquire) >= count) return cudaSuccess;
  cudaEvent_t behind = nullptr;
  {
    const detail::LockGuard guard(mutex_);
    behind = behind_.get();
  }
  const DeviceScope scope(queue_.device().index());
  cudaError_t answer = cudaSuccess;
  if (behind != nullptr) {
    answer = cudaEventQuery(behind);
  } else if (queue_.owner() == owner_) {
    answer = queue_.ask_driver();
  }
  return answer;
}

/// Whether all of it is over: then it is closed.
cudaError_t TimedBatch::ask_whether_over() noexcept {
  // The driver would be kept from who submits, and a batch of a few be fetched each time that short commands are done.
  const Clock::time_point begin = Clock::now();
  const std::size_t settled = this->settled(size);
  const bool young = settled != size && !wanted_.load(std::memory_order_relaxed) && begin - begun_ < least_age;
  if (young && settled != std::exchange(settled_before_, settled)) return cudaErrorNotReady;
  std::size_t count = 0;
  cudaError_t answer = state(count);
  // The end of a copy that was over before its call returned is recorded beside the stream.
  for (std::size_t i = seen_; i < count && answer == cudaSuccess; ++i) {
    if (command(i).end) answer = cudaEventQuery(command(i).end.get());
  }
  if (answer != cudaSuccess) return answer;
  const Clock::time_point now = Clock::now();
  for (; seen_ < count; ++seen_) command(seen_).seen = now;
  if (young) return cudaErrorNotReady;
  if (!queue_.times().close(*this, count)) return cudaErrorNotReady;
  all_ = count;
  return cudaSuccess;
}

cudaError_t TimedBatch::fetch() noexcept {
  const bool replays = any([](const TimedCommand& one) { return one.replay != nullptr; });
  const bool kernels = has_kernels() && any([](const TimedCommand& one) { return one.how == How::kernel; });
  if (!kernels && !replays) return cudaSuccess;
  try {
    TimesMemory& memory = queue_.device().times_memory();
    StockEvent fetched(queue_.device(), false, {});
    cudaError_t answer = kernels ? memory.fetch(kernels_, all_, fetched.get()) : cudaSuccess;
    for (std::size_t i = 0; i < all_; ++i) {
      if (command(i).replay == nullptr) continue;
      for (const TimesMemory::Block& block : command(i).replay->blocks) {
        if (answer == cudaSuccess) answer = memory.fetch(block, TimesMemory::block_size, fetched.get());
      }
    }
    if (answer == cudaSuccess) fetched_ = std::move(fetched);
    return answer == cudaSuccess ? cudaErrorNotReady : answer;
  } catch (...) {
    return cudaErrorUnknown;  // the driver makes no more events
  }
}

cudaError_t TimedBatch::ask() noexcept {
  if (before_ != nullptr) {
    if (!before_->told()) return cudaErrorNotReady;
    before_.reset();
  }
  if (!over_) {
    const cudaError_t answer = ask_whether_over();
    if (answer != cudaSuccess) return answer;
    over_ = true;
    asks_ = any([](const TimedCommand& one) { return one.how != How::no_time && one.how != How::host; });
    fetching_ = fetch();
  }
  if (asks_ && !queue_.device().clock().ask(queue_.device())) return cudaErrorNotReady;
  asks_ = false;
  return fetching_ == cudaErrorNotReady ? cudaEventQuery(fetched_.get()) : fetching_;
}

void TimedBatch::tell(cudaError_t answer) noexcept {
  queue_.times().close(*this);
  if (answer == cudaSuccess) report();  // else nobody knows what ran before the device failed
  told_.store(true, std::memory_order_release);
}

void TimedBatch::report() noexcept {
  try {
    cuda::report(spans());
  } catch (...) {
    // It is not told when they ran.
  }
  TimesMemory& memory = queue_.device().times_memory();
  memory.give_by_batch(kernels_);
  for (std::size_t i = 0; i < all_; ++i) {
    TimedCommand& one = command(i);
    if (one.replay != nullptr) {
      for (const TimesMemory::Block& block : one.replay->blocks) memory.give(block);
    }
    one = {};
  }
  // The queue keeps the batch, not its events.
  for (std::unique_ptr<Rooms::Room>& room : rooms_) {
    if (room != nullptr) Rooms::instance().give(std::move(room));
  }
}

std::vector<RanAt> TimedBatch::spans() {
  DeviceClock& clock = queue_.device().clock();
  for (std::size_t i = 0; i < all_; ++i) {
    const TimedCommand& one = command(i);
    if (one.how == How::kernel && kernels_.on_host[i].end != 0) {
      clock.learn(one.submitted, one.seen, kernels_.on_host[i]);
    }
    if (one.how == How::events && one.begin_event() != nullptr && one.end) {
      static_cast<void>(clock.between(one.submitted, one.seen, one.begin_event(), one.end.get()));
    }
  }
  std::vector<RanAt> all;
  all.reserve(all_);
  for (std::size_t i = 0; i < all_; ++i) {
    const TimedCommand& one = command(i);
    if (one.refused) continue;
    Span span = span_of(i);
    if (one.replay != nullptr) add_nodes(one, span, all);
    all.push_back({one.id, one.stream, {}, span});
  }
  return all;
}

/// The kernels of a replay, by their own stamps. The launch is by these, too, or by events where there is more in it than
/// kernels that note their times: the two clocks agree within some microseconds.
void TimedBatch::add_nodes(const TimedCommand& launch, Span& span, std::vector<RanAt>& all) {
  DeviceClock& clock = queue_.device().clock();
  const ReplayTimes& replay = *launch.replay;
  const std::size_t first = all.size();
  const auto times_of = [&](std::size_t i) -> const detail::KernelTimes& {
    return replay.blocks[i / TimesMemory::block_size].on_host[i % TimesMemory::block_size];
  };
  std::vector<std::size_t> ran;
  for (std::size_t i = 0; i < replay.nodes->size(); ++i) {
    const detail::KernelTimes& times = times_of(i);
    if (times.end == 0) continue;
    const Span before = clock.of_kernel(times);
    if (before.begin + before.error < launch.submitted) continue;  // of an earlier replay: it was skipped in this one
    clock.learn(launch.submitted, launch.seen, times);
    ran.push_back(i);
  }
  // By what all of them have taught: between two of them the clock would be another one.
  Clock::time_point begin = Clock::time_point::max();
  Clock::time_point end = Clock::time_point::min();
  for (const std::size_t i : ran) {
    const Span span_of_node = clock.of_kernel(times_of(i));
    begin = std::min(begin, span_of_node.begin);
    end = std::max(end, span_of_node.end);
    all.push_back({launch.id, launch.stream, (*replay.nodes)[i], span_of_node});
  }
  if (launch.how == How::nodes && first != all.size()) {
    Span whole = all[first].span;
    whole.begin = begin;
    whole.end = end;
    span = clock.in_order(launch.stream, launch.submitted, launch.seen, whole);
  }
  const Clock::duration late =
      first != all.size() ? std::max(span.begin - begin, Clock::duration{}) : Clock::duration{};
  for (std::size_t i = first; i < all.size(); ++i) {
    all[i].span.begin += late;
    all[i].span.end += late;
    span.end = std::max(span.end, all[i].span.end);
  }
}

Span TimedBatch::span_of(std::size_t number) {
  TimedCommand& one = command(number);
  DeviceClock& clock = queue_.device().clock();
  const auto in_order = [&](const Span& span) { return clock.in_order(one.stream, one.submitted, one.seen, span); };
  if (one.how == How::kernel && kernels_.on_host[number].end != 0) {
    return in_order(clock.of_kernel(kernels_.on_host[number]));
  }
  if (one.how == How::events && one.begin_event() != nullptr && one.end) {
    return in_order(clock.between(one.submitted, one.seen, one.begin_event(), one.end.get()));
  }
  if (one.how == How::part && one.part != nullptr) {
    const PartTimes::Events events = one.part->events();
    if (events.begin != nullptr)
      return in_order(clock.between(one.submitted, one.seen, events.begin->get(), events.end->get()));
  }
  if (one.how == How::host && one.host != nullptr) {
    const Clock::rep end = one.host->end.load(std::memory_order_acquire);
    const Clock::rep begin = one.host->begin.load(std::memory_order_relaxed);
    if (end != 0) return in_order({Clock::time_point(Clock::duration(begin)), Clock::time_point(Clock::duration(end))});
  }
  return clock.at_the_end(one.stream, one.submitted);
}

TimedCommand& TimedPlace::command() const { return batch_->command(number_); }
detail::KernelTimes* TimedPlace::kernel() const { return batch_->kernel(number_); }
std::shared_ptr<TimedBatch> TimedPlace::settle() noexcept { return std::exchange(batch_, nullptr)->settle(number_); }
void close(TimedBatch& batch, StockEvent behind) noexcept { batch.close(std::move(behind)); }

namespace {

class BatchOver final : public Reached {
 public:
  explicit BatchOver(std::shared_ptr<TimedBatch> batch) : batch_(std::move(batch)) {}
  cudaError_t ask() noexcept override { return batch_->ask(); }
  void reached(cudaError_t answer) noexcept override { batch_->tell(answer); }

 private:
  const std::shared_ptr<TimedBatch> batch_;
};

/// Those that are not told, for who wants to know when they are.
struct Pending {
  detail::Mutex mutex;
  std::vector<std::weak_ptr<TimedBatch>> batches WEIR_GUARDED_BY(mutex);

  static Pending& instance() {
    static auto& pending = *new Pending;
    return pending;
  }
  void add(const std::shared_ptr<TimedBatch>& batch) {
    const detail::LockGuard guard(mutex);
    if (batches.size() == batches.capacity()) {
      std::erase_if(batches, [](const std::weak_ptr<TimedBatch>& one) { return is_told(one.lock()); });
      batches.reserve(2 * batches.size() + 16);
    }
    batches.push_back(batch);
  }
  bool any_ever() {
    const detail::LockGuard guard(mutex);
    return batches.capacity() != 0;
  }
  std::vector<std::shared_ptr<TimedBatch>> all() {
    std::vector<std::shared_ptr<TimedBatch>> found;
    const detail::LockGuard guard(mutex);
    for (const std::weak_ptr<TimedBatch>& one : batches) {
      std::shared_ptr<TimedBatch> batch = one.lock();
      if (!is_told(batch)) found.push_back(std::move(batch));
    }
    return found;
  }
  static bool is_told(const std::shared_ptr<TimedBatch>& batch) { return batch == nullptr || batch->told(); }
};

/// Nobody waits longer, from the last that came of them, for threads that may have ended with the process.
constexpr auto longest_wait = std::chrono::seconds(1);
constexpr auto look_again = std::chrono::microseconds(20);

}  // namespace

bool CommandTimes::has_room() const { return !closed_ && batch_->has_room_for(count_); }

TimedPlace CommandTimes::take_place() {
  batch_->fetch_behind(count_);
  return {*batch_, count_++};
}

bool CommandTimes::make_room(CudaQueue& queue) noexcept {
  try {
    const detail::LockGuard making(making_);
    std::shared_ptr<TimedBatch> newest;
    std::size_t number = TimedBatch::size;
    {
      const detail::LockGuard guard(lock_);
      if (has_room()) return true;
      newest = batch_;
      if (!closed_) number = count_;
    }
    if (number == TimedBatch::size) {
      begin_batch(queue, std::move(newest));
      return true;
    }
    std::unique_ptr<Rooms::Room> room = Rooms::instance().take();
    const detail::LockGuard guard(lock_);
    if (!closed_) batch_->give_room(number, room);  // else the poller gives its rooms back by now
    return true;
  } catch (...) {
    return false;
  }
}

CommandTimes::Added CommandTimes::add(CudaQueue& queue, bool takes_time) noexcept {
  do {
    const detail::LockGuard guard(lock_);
    if (has_room()) return {take_place(), takes_time ? std::exchange(last_end_, {}) : TimedPlace{}};
  } while (make_room(queue));
  return {};
}

TimedPlace CommandTimes::add_kernel(CudaQueue& queue) noexcept {
  do {
    const detail::LockGuard guard(lock_);
    if (!has_room()) continue;
    if (!batch_->has_kernels()) return {};
    last_end_ = {};
    return take_place();
  } while (make_room(queue));
  return {};
}

void CommandTimes::note_end(const TimedPlace& place) noexcept {
  const detail::LockGuard guard(lock_);
  if (count_ != 0 && place == TimedPlace(*batch_, count_ - 1)) last_end_ = place;
}

void CommandTimes::begin_batch(CudaQueue& queue, std::shared_ptr<TimedBatch> before) {
  auto made = std::make_shared<TimedBatch>(queue, before);
  std::unique_ptr<Rooms::Room> room = Rooms::instance().take();
  made->give_room(0, room);
  Pending::instance().add(made);
  std::unique_ptr<Reached> over = std::make_unique<BatchOver>(made);
  Poller::instance().add(this, queue.device().index(), nullptr, over, Poller::Hurry::no);
  {
    const detail::LockGuard guard(lock_);
    if (before != nullptr) before->set_count(count_);
    batch_ = std::move(made);
    last_end_ = {};
    count_ = 0;
    closed_ = false;
  }
  any_.store(true, std::memory_order_relaxed);
}

std::size_t CommandTimes::count_of(const TimedBatch& batch) noexcept {
  const detail::LockGuard guard(lock_);
  return &batch == batch_.get() ? count_ : batch.count();
}

bool CommandTimes::close(const TimedBatch& batch, std::size_t count) noexcept {
  const detail::LockGuard guard(lock_);
  if (&batch != batch_.get()) return batch.count() == count;
  if (count_ != count) return false;
  closed_ = true;
  return true;
}

void CommandTimes::close(const TimedBatch& batch) noexcept {
  const detail::LockGuard guard(lock_);
  if (&batch == batch_.get()) closed_ = true;
}

void CommandTimes::tell_what_is_over() noexcept {
  if (is_exiting() || !may_call_driver()) return;  // there is no poller any more, or it is the one who asks
  try {
    if (!Pending::instance().any_ever()) return;
    for (const std::shared_ptr<TimedBatch>& batch : Pending::instance().all()) {
      const auto late = Clock::now() + longest_wait;
      std::size_t count = 0;
      batch->want();
      const cudaError_t answer = batch->state(count);
      note(answer);
      while (answer == cudaSuccess && !batch->told() && Clock::now() < late) std::this_thread::sleep_for(look_again);
    }
    wait_for_reports(longest_wait);
  } catch (...) {
    // Without memory for the lists it is told later.
  }
}

CommandTimes::End CommandTimes::end() noexcept {
  if (!any_.load(std::memory_order_relaxed)) return {};
  End all;
  {
    const detail::LockGuard guard(lock_);
    all = {batch_, count_};
  }
  return all.batch->has_settled(all.count) ? std::move(all) : End{};
}

void CommandTimes::End::reached() const noexcept {
  if (batch != nullptr) batch->note_over(count);
}

void CommandTimes::begin_anew() noexcept {
  const detail::LockGuard guard(lock_);
  closed_ = true;
}

}  // namespace weir::cuda
