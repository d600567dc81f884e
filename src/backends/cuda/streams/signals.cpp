// Signals: words that streams wait for, and callbacks behind events.
#include "backends/cuda/streams/signals.hpp"

#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <new>
#include <utility>

#include "backends/cuda/cuda_device.hpp"
#include "backends/cuda/cuda_error.hpp"
#include "backends/cuda/memory/pinned_memory.hpp"
#include "backends/cuda/streams/cuda_event.hpp"
#include "backends/cuda/streams/cuda_queue.hpp"
#include "backends/cuda/streams/host_functions.hpp"
#include "thread_safety.hpp"

namespace weir::cuda {

namespace {

constexpr const char* operation = "weir::Stream::wait";

/// A signal on its way to an event.
struct Awaited {
  std::unique_ptr<detail::Signal> signal;
  FailureState failures;  ///< of what the event stands for: settled before the event is reached
  CudaDevice& device;
  SourceLocation where;
  cudaStream_t own_stream = nullptr;
};

std::shared_ptr<const Error> device_failure(cudaError_t answer, const Awaited& awaited) {
  try {
    refuse(answer, operation, awaited.device.name(), awaited.where);
  } catch (const Error& error) {
    return std::make_shared<const Error>(error);
  }
}

void reach(cudaStream_t, cudaError_t answer, void* data) {
  if (is_exiting()) return;
  std::unique_ptr<Awaited> awaited(static_cast<Awaited*>(data));
  std::shared_ptr<const Error> failure = awaited->failures.take();
  if (answer != cudaSuccess) failure = device_failure(answer, *awaited);
  if (awaited->own_stream != nullptr) awaited->device.give_waiting_stream(awaited->own_stream);
  awaited->signal->give(std::move(failure));
  // After a failure of the device nobody may settle any more, or somebody later: better lost than used when it is gone.
  if (awaited->failures.in_doubt()) static_cast<void>(awaited.release());
}

/// Puts the wait and the callback into a stream. A callback, since it is called after a failure of the device, too, where a
/// host function is not, and whoever waits would wait for ever.
void send(std::unique_ptr<Awaited> awaited, cudaStream_t stream, CudaEvent& event,
          std::unique_ptr<detail::Signal>& signal) {
  CudaDevice& device = awaited->device;
  const SourceLocation where = awaited->where;
  note_exit();
  check(cudaStreamWaitEvent(stream, event.native.load(std::memory_order_acquire), cudaEventWaitDefault), operation,
        device.name(), where);
  if (CudaQueue* source = event.queue.load(std::memory_order_acquire)) {
    awaited->failures.depend_on(source->failures(), event.place.load(std::memory_order_relaxed));
  }
  awaited->signal = std::move(signal);
  Awaited& sent = *awaited.release();  // also if it is refused: others may hold on to its failures
  const cudaError_t answer = cudaStreamAddCallback(stream, &reach, &sent, 0);
  if (answer == cudaSuccess) return;
  signal = std::move(sent.signal);
  refuse(answer, operation, device.name(), where);
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

SignalWord& Signals::take_word(SourceLocation where) {
  constexpr std::size_t slab = 64;
  detail::UniqueLock guard(signals_lock());
  while (free_ == nullptr) {
    guard.unlock();  // the driver may take its time, and others give signals meanwhile
    void* memory = PinnedMemory::instance().take(slab * sizeof(SignalWord), operation, where);
    guard.lock();
    auto* words = static_cast<SignalWord*>(memory);
    for (std::size_t i = 0; i < slab; ++i) free_ = new (words + i) SignalWord{0, 0, free_};
  }
  SignalWord& word = *std::exchange(free_, free_->next);
  ++word.awaited;
  return word;
}

std::unique_ptr<CudaSignal> Signals::make(FailureState& failures, SourceLocation where) {
  auto signal = std::make_unique<CudaSignal>(failures, take_word(where));
  const detail::LockGuard guard(signals_lock());
  if (ended_) {
    signal->let_go(exiting_error());
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
    signal.let_go(error);
  }
}

void CudaSignal::let_go(std::shared_ptr<const Error> failure) noexcept {
  failures_.settle(place_, std::move(failure));  // first: what runs next looks at the failures
  std::atomic_ref(word_.reached).store(count_, std::memory_order_seq_cst);
  Signals& all = Signals::instance();
  word_.next = std::exchange(all.free_, &word_);
}

void CudaSignal::give(std::shared_ptr<const Error> failure) noexcept {
  Signals& all = Signals::instance();
  const detail::LockGuard guard(signals_lock());
  if (all.remove(*this)) let_go(std::move(failure));
}

cudaError_t CudaSignal::hold(cudaStream_t stream, int device) const {
  const auto wait = [&] {
    return driver().wait_for_word(stream, reinterpret_cast<CUdeviceptr>(&word_.reached), count_,
                                  CU_STREAM_WAIT_VALUE_GEQ);
  };
  CUresult answer = wait();
  if (answer != CUDA_SUCCESS) {
    // No call of the runtime's does the same, and the driver's own may want its context to be current.
    note(cudaSetDevice(device));
    answer = wait();
  }
  return static_cast<cudaError_t>(answer);
}

std::unique_ptr<detail::Signal> CudaQueue::wait_for_signal(const Command& command) {
  const SourceLocation where = command.where;
  Watched watched(*this, command);
  const cudaStream_t queue = stream(where);
  ensure_flag(where);
  const DeviceScope scope(device_.index());
  std::unique_ptr<CudaSignal> signal = Signals::instance().make(failures_, where);
  check(legacy_ || wrapped_ ? wait_aside(*signal, where) : signal->hold(queue, device_.index()), operation, label_,
        where);
  watched.end();
  return signal;
}

/// For waits the driver keeps the rules of the legacy stream, and refuses them in foreign captures; for words it does not say.
cudaError_t CudaQueue::wait_aside(const CudaSignal& signal, SourceLocation where) {
  const cudaStream_t queue = stream(where);
  const detail::LockGuard guard(behind_words_.mutex);
  if (behind_words_.stream == nullptr) behind_words_.stream = device_.make_waiting_stream(where);
  cudaError_t answer = cudaSuccess;
  if (behind_words_.event == nullptr) {
    answer = cudaEventCreateWithFlags(&behind_words_.event, cudaEventDisableTiming);
  }
  if (answer == cudaSuccess) answer = signal.hold(behind_words_.stream, device_.index());
  if (answer == cudaSuccess) answer = cudaEventRecord(behind_words_.event, behind_words_.stream);
  if (answer == cudaSuccess) answer = cudaStreamWaitEvent(queue, behind_words_.event, cudaEventWaitDefault);
  return answer;
}

void signal_after(CudaEvent& event, std::unique_ptr<detail::Signal>& signal, SourceLocation where) {
  CudaDevice& device = CudaDevice::at(event.device);
  const DeviceScope scope(event.device);
  auto awaited = std::unique_ptr<Awaited>(new Awaited{nullptr, {}, device, where});
  const std::uint64_t number = event.number.load(std::memory_order_relaxed);
  if (CudaQueue* recorder = event.recorder.load(std::memory_order_relaxed)) {
    // One stream for all waits of a queue's events, as long as they come in the order of the records: none waits longer for
    // it, and a program that is far ahead of the device needs no more streams.
    CudaQueue::Aside& aside = recorder->behind_events();
    const detail::LockGuard guard(aside.mutex);
    if (number >= aside.number) {
      if (aside.stream == nullptr) aside.stream = device.make_waiting_stream(where);
      send(std::move(awaited), aside.stream, event, signal);
      aside.number = number;
      return;
    }
  }
  const cudaStream_t stream = device.take_waiting_stream(where);
  awaited->own_stream = stream;
  try {
    send(std::move(awaited), stream, event, signal);
  } catch (...) {
    device.give_waiting_stream(stream);
    throw;
  }
}

}  // namespace weir::cuda
