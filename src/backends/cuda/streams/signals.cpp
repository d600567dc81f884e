// Signals: words that streams wait for, and callbacks behind events.
#include "backends/cuda/streams/signals.hpp"

#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <new>
#include <utility>
#include <vector>

#include "backends/cuda/cuda_device.hpp"
#include "backends/cuda/cuda_error.hpp"
#include "backends/cuda/memory/pinned_memory.hpp"
#include "backends/cuda/streams/cuda_event.hpp"
#include "backends/cuda/streams/cuda_queue.hpp"
#include "backends/cuda/streams/host_functions.hpp"
#include "backends/cuda/streams/poller.hpp"
#include "backends/cuda/streams/room.hpp"
#include "backends/cuda/streams/stocks.hpp"
#include "backends/cuda/streams/threads.hpp"
#include "thread_safety.hpp"

namespace weir::cuda {

namespace {

constexpr const char* operation = "weir::Stream::wait";

std::shared_ptr<const Error> device_failure(cudaError_t answer, CudaDevice& device, SourceLocation where) {
  try {
    refuse(answer, operation, device.name(), where);
  } catch (const Error& error) {
    return std::make_shared<const Error>(error);
  }
}

/// Failures that are reached before they are settled: those of a collective, which ends well, a moment later; after a failure of the
/// device nobody may settle them any more. They are kept until then.
class Unsettled {
 public:
  static Unsettled& instance() {
    static auto& all = *new Unsettled;
    return all;
  }
  void keep(std::unique_ptr<FailureState> failures) noexcept {
    const detail::LockGuard guard(mutex_);
    std::erase_if(kept_, [](const auto& one) { return !one->in_doubt(); });
    try {
      kept_.push_back(nullptr);
      kept_.back() = std::move(failures);
    } catch (...) {
      static_cast<void>(failures.release());  // better lost than used when it is gone
    }
  }

 private:
  detail::Mutex mutex_;
  std::vector<std::unique_ptr<FailureState>> kept_ WEIR_GUARDED_BY(mutex_);
};

/// A signal on its way to an event.
class GiveWhenReached : public Reached {
 public:
  GiveWhenReached(CudaDevice& device, SourceLocation where) : device_(device), where_(where) {}
  ~GiveWhenReached() override {
    if (failures_ != nullptr && failures_->in_doubt()) Unsettled::instance().keep(std::move(failures_));
  }

  /// The failures of what the event stands for: they are settled before it is reached.
  void depend_on(FailureState& source, std::uint64_t place) {
    failures_ = std::make_unique<FailureState>();
    failures_->depend_on(source, place);
  }
  void set(std::unique_ptr<detail::Signal> signal) { signal_ = std::move(signal); }
  std::unique_ptr<detail::Signal> take() { return std::move(signal_); }

  void reached(cudaError_t answer) noexcept override {
    if (answer != cudaSuccess) return signal_->give(device_failure(answer, device_, where_), 0);
    if (failures_ == nullptr) return signal_->give();
    signal_->give(failures_->take(), failures_->failed_by());
  }

 protected:
  CudaDevice& device() { return device_; }

 private:
  CudaDevice& device_;
  const SourceLocation where_;
  std::unique_ptr<FailureState> failures_;
  std::unique_ptr<detail::Signal> signal_;
};

/// Of the last record of an event.
class GiveBehindRecord final : public GiveWhenReached {
 public:
  GiveBehindRecord(CudaDevice& device, CudaEvent& event, SourceLocation where)
      : GiveWhenReached(device, where), record_(event) {}
  cudaEvent_t event() const { return record_.get(); }

 private:
  PolledRecord record_;
};

/// Of an event that later replays of graphs record: an event of our own stands for its last record so far.
class GiveBehindReplay final : public GiveWhenReached {
 public:
  GiveBehindReplay(CudaDevice& device, CudaEvent& event, SourceLocation where)
      : GiveWhenReached(device, where), mark_(device, false, where), stream_(device.take_waiting_stream(where)) {
    cudaError_t answer =
        cudaStreamWaitEvent(stream_, event.native.load(std::memory_order_acquire), cudaEventWaitDefault);
    if (answer == cudaSuccess) answer = cudaEventRecord(mark_.get(), stream_);
    if (answer == cudaSuccess) return;
    device.give_waiting_stream(stream_);
    refuse(answer, operation, device.name(), where);
  }
  ~GiveBehindReplay() override { device().give_waiting_stream(stream_); }
  cudaEvent_t event() const { return mark_.get(); }

 private:
  StockEvent mark_;
  cudaStream_t stream_;
};

/// Takes the signal unless it throws.
template <class Give>
void send(std::unique_ptr<Give> give, const void* order, CudaEvent& event, std::unique_ptr<detail::Signal>& signal) {
  if (const auto source = event.failure_place(); source.failures != nullptr) {
    give->depend_on(*source.failures, source.place);
  }
  give->set(std::move(signal));
  Give& sent = *give;
  std::unique_ptr<Reached> reached = std::move(give);
  try {
    Poller::instance().add(order, event.device, sent.event(), reached);
  } catch (...) {
    signal = sent.take();
    throw;
  }
}

std::shared_ptr<const Error> exiting_error() {
  return std::make_shared<const Error>(Errc::process_exiting, operation, "a wait for another backend",
                                       "the process is ending, and what it waits for will not run", SourceLocation{});
}

}  // namespace

detail::Mutex& signals_lock() {
  static auto& lock = *new detail::Mutex;
  return lock;
}

Signals& Signals::instance() {
  static auto& signals = *new Signals;
  return signals;
}

Signals::Signals() {
  static pid_t process;
  process = getpid();
  note_exit();
  std::atexit([] {
    if (getpid() == process) instance().end();  // a forked child has neither the streams nor the words
  });
}

void Signals::fill(SourceLocation where) {
  {
    const detail::LockGuard guard(signals_lock());
    if (free_count_ >= words) return;
  }
  auto* memory = static_cast<SignalWord*>(PinnedMemory::instance().take(words * sizeof(SignalWord), operation, where));
  const detail::LockGuard guard(signals_lock());
  for (std::size_t i = 0; i < words; ++i) free_ = new (memory + i) SignalWord{0, 0, free_};
  free_count_ += words;
}

void Signals::refill_soon() noexcept {
  if (filling_.exchange(true)) return;
  try {
    auto task = make_task([this] {
      filling_.store(false);
      try {
        fill({});
      } catch (const Error&) {
        // Who takes the last one makes more, or is told why there are none.
      }
    });
    TaskThread::housekeeper().post(task);
  } catch (...) {
    filling_.store(false);
  }
}

/// The last ones are for the time when a thread waits for room, and the driver makes nothing (R214): that thread may be the one who has
/// taken the others, faster than they were made again.
SignalWord& Signals::take_word(SourceLocation where) {
  for (bool may_fill = true;;) {
    SignalWord* word = nullptr;
    bool low = false;
    bool fills = false;
    {
      const detail::LockGuard guard(signals_lock());
      low = free_count_ <= words / 2;
      fills = may_fill && free_count_ <= words / 4 && !RoomCall::others_wait();
      if (!fills && free_ != nullptr) {
        word = std::exchange(free_, free_->next);
        --free_count_;
        ++word->awaited;
      }
    }
    if (fills) {
      may_fill = false;
      try {
        fill(where);
      } catch (const Error&) {
        // Whoever takes the last one makes more, or is told why there are none.
      }
      continue;
    }
    if (low) refill_soon();
    if (word != nullptr) return *word;
    fill(where);
  }
}

void Signals::give_word(SignalWord& word) noexcept {
  const detail::LockGuard guard(signals_lock());
  word.next = std::exchange(free_, &word);
  ++free_count_;
}

std::unique_ptr<CudaSignal> Signals::make(FailureState& failures, SourceLocation where) {
  auto signal = std::make_unique<CudaSignal>(failures, take_word(where));
  const detail::LockGuard guard(signals_lock());
  if (ended_) {
    signal->let_go(exiting_error(), 0);
    return signal;
  }
  signal->pending_ = true;
  signal->next_ = pending_;
  if (pending_ != nullptr) pending_->previous_ = signal.get();
  pending_ = signal.get();
  return signal;
}

bool Signals::remove(CudaSignal& signal) noexcept {
  if (!std::exchange(signal.pending_, false)) return false;
  (signal.previous_ != nullptr ? signal.previous_->next_ : pending_) = signal.next_;
  if (signal.next_ != nullptr) signal.next_->previous_ = signal.previous_;
  return true;
}

void Signals::end() noexcept {
  const auto error = exiting_error();
  const detail::LockGuard guard(signals_lock());
  ended_ = true;
  while (pending_ != nullptr) {
    CudaSignal& signal = *pending_;
    remove(signal);
    signal.let_go(error, 0);
  }
}

void CudaSignal::let_go(std::shared_ptr<const Error> failure, StreamId from) noexcept {
  failures_.settle(place_, std::move(failure), from);  // first: what runs next looks at the failures
  std::atomic_ref(word_.reached).store(count_, std::memory_order_seq_cst);
  Signals& all = Signals::instance();
  word_.next = std::exchange(all.free_, &word_);
  ++all.free_count_;
}

void CudaSignal::give(std::shared_ptr<const Error> failure, StreamId from) noexcept {
  Signals& all = Signals::instance();
  const detail::LockGuard guard(signals_lock());
  if (all.remove(*this)) let_go(std::move(failure), from);
}

cudaError_t wait_for(const SignalWord& word, std::uint32_t count, cudaStream_t stream, int device) {
  const RoomCall room;
  const auto wait = [&] {
    return driver().wait_for_word(stream, reinterpret_cast<CUdeviceptr>(&word.reached), count,
                                  CU_STREAM_WAIT_VALUE_GEQ);
  };
  CUresult answer = wait();
  if (answer != CUDA_SUCCESS) {
    // No call of the runtime's does the same, and the driver's own may want its context to be current.
    const ContextScope scope(device);
    answer = wait();
  }
  return static_cast<cudaError_t>(answer);
}

std::unique_ptr<detail::Signal> CudaQueue::wait_for_signal(const Command& command) {
  const SourceLocation where = command.where;
  check_no_foreign_capture(operation, where);
  Watched watched(*this, command);
  const LegacyWork legacy(*this);
  const cudaStream_t queue = stream(where);
  ensure_flag(where);
  const DeviceScope scope(device_.index());
  std::unique_ptr<CudaSignal> signal = Signals::instance().make(failures(), where);
  check(
      legacy_ || wrapped() ? wait_aside(signal->word(), signal->count(), where) : signal->hold(queue, device_.index()),
      operation, label_, where);
  waited_.store(true, std::memory_order_relaxed);
  watched.end();
  return signal;
}

/// For waits the driver keeps the rules of the legacy stream, and refuses them in foreign captures; for words it does not say.
cudaError_t CudaQueue::wait_aside(const SignalWord& word, std::uint32_t count, SourceLocation where) {
  cudaStream_t aside = behind_words_.load(std::memory_order_acquire);
  if (aside == nullptr) {
    const cudaStream_t made = device_.take_waiting_stream(where);
    if (behind_words_.compare_exchange_strong(aside, made)) {
      aside = made;
    } else {
      device_.give_waiting_stream(made);
    }
  }
  const StockEvent behind(device_, false, where);
  cudaError_t answer = cuda::wait_for(word, count, aside, device_.index());
  if (answer == cudaSuccess) answer = cudaEventRecord(behind.get(), aside);
  if (answer == cudaSuccess) {
    answer = cudaStreamWaitEvent(stream_.load(std::memory_order_acquire), behind.get(), cudaEventWaitDefault);
  }
  return answer;
}

void signal_after(CudaEvent& event, std::unique_ptr<detail::Signal>& signal, SourceLocation where) {
  CudaDevice& device = CudaDevice::at(event.device);
  if (device.is_in_graphs(event)) {
    const DeviceScope scope(event.device);
    auto give = std::make_unique<GiveBehindReplay>(device, event, where);
    const void* const own_order = give.get();
    return send(std::move(give), own_order, event, signal);
  }
  auto give = std::make_unique<GiveBehindRecord>(device, event, where);
  const void* const recorder = event.recorder.load(std::memory_order_relaxed);
  const void* const order = recorder != nullptr ? recorder : static_cast<const void*>(give.get());
  send(std::move(give), order, event, signal);
}

namespace {

/// What a queue had taken is over: whether it failed, nobody asks. Where the driver cannot say that it is, the signal is never
/// given: what waits for it would be used too early.
class GiveAtEnd final : public Reached {
 public:
  GiveAtEnd(EndMark end, std::unique_ptr<detail::Signal> signal) : end_(std::move(end)), signal_(std::move(signal)) {}
  void reached(cudaError_t answer) noexcept override {
    if (answer == cudaSuccess || is_sticky(answer)) return signal_->give();
    static_cast<void>(signal_.release());
  }
  std::unique_ptr<detail::Signal> take() { return std::move(signal_); }

 private:
  EndMark end_;
  std::unique_ptr<detail::Signal> signal_;
};

/// The same, later, by a thread that may call the driver.
class SignalElsewhere final : public Task {
 public:
  SignalElsewhere(CudaQueue& queue, StreamId owner, std::unique_ptr<detail::Signal> signal)
      : queue_(queue), owner_(owner), signal_(std::move(signal)) {}
  void run() noexcept override {
    try {
      queue_.signal_after(owner_, signal_);
    } catch (...) {
      static_cast<void>(signal_.release());  // better never given than too early
    }
  }
  std::unique_ptr<detail::Signal> take() { return std::move(signal_); }

 private:
  CudaQueue& queue_;
  const StreamId owner_;
  std::unique_ptr<detail::Signal> signal_;
};

}  // namespace

void CudaQueue::signal_after(StreamId owner, std::unique_ptr<detail::Signal>& signal) {
  if (!may_call_driver()) {
    auto elsewhere = std::make_unique<SignalElsewhere>(*this, owner, std::move(signal));
    SignalElsewhere& task = *elsewhere;
    std::unique_ptr<Task> posted = std::move(elsewhere);
    try {
      TaskThread::housekeeper().post(posted);
    } catch (...) {
      signal = task.take();
      throw;
    }
    return;
  }
  EndMark end = this->owner() == owner ? mark_end(operation, {}) : EndMark();
  if (!end) return std::exchange(signal, nullptr)->give();
  const cudaEvent_t event = end.event();
  auto give = std::make_unique<GiveAtEnd>(std::move(end), std::move(signal));
  GiveAtEnd& sent = *give;
  std::unique_ptr<Reached> reached = std::move(give);
  try {
    Poller::instance().add(this, device_.index(), event, reached, Poller::Hurry::no);
  } catch (...) {
    signal = sent.take();
    throw;
  }
}

}  // namespace weir::cuda
