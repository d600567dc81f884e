// Host functions: owned by their queue, called by a thread of the driver's or of ours, their exceptions kept for the host.
#include <atomic>
#include <memory>
#include <utility>

#include <weir/host_call.hpp>

#include "backends/cuda/cuda_device.hpp"
#include "backends/cuda/driver.hpp"
#include "backends/cuda/graphs/driver_graph.hpp"
#include "backends/cuda/streams/cuda_queue.hpp"
#include "backends/cuda/streams/host_functions.hpp"
#include "backends/cuda/streams/poller.hpp"
#include "backends/cuda/streams/room.hpp"
#include "backends/cuda/streams/signals.hpp"
#include "backends/cuda/streams/threads.hpp"
#include "failure_reports.hpp"
#include "no_waits.hpp"

namespace weir::cuda {

namespace {

/// Of the 56 that the driver takes (R213) some are left to others: foreign libraries, and graphs.
constexpr int most_behind_waits = 32;

struct Call {
  std::unique_ptr<detail::HostFunction> function;
  FailureState* failures;
  std::uint64_t place;
  SourceLocation where;
  std::string label;                         ///< the queue may have another owner by then
  std::shared_ptr<HostTimes> times;          ///< null: nobody wants to know
  std::atomic<int>* behind_waits = nullptr;  ///< where it is counted
};

/// What it throws.
std::shared_ptr<const Error> run(Call& call) {
  std::shared_ptr<const Error> error;
  if (!call.failures->skips(call.place)) {
    const HostTimes::Scope taken(call.times.get());
    error = call_function(*call.function, call.label, call.where);
  }
  {
    const RunningScope scope("a host function", call.where);  // its destructor is the user's code, too
    call.function.reset();
  }
  if (error) detail::note_unseen(error);
  return error;
}

void run_call(void* data) {
  if (is_exiting()) return;
  const detail::NoWaits no_waits;
  const std::unique_ptr<Call> call(static_cast<Call*>(data));
  call->failures->settle(call->place, run(*call));
  if (call->behind_waits != nullptr) call->behind_waits->fetch_sub(1, std::memory_order_relaxed);
}

/// A host function that a stream waits for by a word: the poller sees that its turn has come.
class CallWhenReached final : public Reached {
 public:
  CallWhenReached(std::unique_ptr<Call> call, std::unique_ptr<CudaSignal> signal, StockEvent turn)
      : call_(std::move(call)), signal_(std::move(signal)), turn_(std::move(turn)) {}
  cudaEvent_t event() const { return turn_.get(); }
  void own(detail::HostFunction* function) { call_->function.reset(function); }
  void disown() { static_cast<void>(call_->function.release()); }

  void reached(cudaError_t answer) noexcept override {
    if (answer != cudaSuccess) return;  // not called behind a failure of the device (R90)
    try {
      auto task = make_task([call = std::move(call_), signal = std::move(signal_)] {
        const detail::NoWaits no_waits;  // a stream waits for it, in which there may be no room
        signal->give(run(*call), 0);
      });
      TaskThread::caller().post(task);
    } catch (...) {
      // Without memory for the task it is skipped, and the stream goes on.
    }
  }

 private:
  std::unique_ptr<Call> call_;
  std::unique_ptr<CudaSignal> signal_;
  StockEvent turn_;
};

}  // namespace

void CudaQueue::submit_call(const Command& command, detail::HostFunction* function, std::shared_ptr<HostTimes> times) {
  constexpr const char* operation = "weir::host_call";
  if (capture_ != nullptr) {
    capture_->add_call(*this, command, *function);
    capture_->own(std::shared_ptr<detail::HostFunction>(function));
    return;
  }
  note_exit();
  const cudaStream_t queue = stream(command.where);
  check_no_foreign_capture(operation, command.where);
  ensure_flag(command.where);
  if (failures().skips_all()) {
    delete function;
    return;
  }
  std::atomic<int>* const behind_waits =
      waited_.exchange(false, std::memory_order_relaxed) ? &device_.calls_behind_waits() : nullptr;
  // The driver lets nobody have a host function while a thread waits for room (R214).
  if ((behind_waits != nullptr && behind_waits->load(std::memory_order_relaxed) >= most_behind_waits) ||
      RoomCall::others_wait()) {
    return call_without_driver(command, function, std::move(times));
  }
  auto call =
      std::make_unique<Call>(Call{nullptr, &failures(), 0, command.where, label_, std::move(times), behind_waits});
  call->place = failures().open_place();
  call->function.reset(function);
  if (behind_waits != nullptr) behind_waits->fetch_add(1, std::memory_order_relaxed);
  const cudaError_t answer = in_context([&] { return driver().launch_host_function(queue, &run_call, call.get()); },
                                        [&] { return cudaLaunchHostFunc(queue, &run_call, call.get()); });
  if (answer != cudaSuccess) {
    static_cast<void>(call->function.release());  // still the caller's
    failures().settle(call->place, nullptr);
    if (behind_waits != nullptr) behind_waits->fetch_sub(1, std::memory_order_relaxed);
    refuse(answer, operation, label_, command.where);
  }
  static_cast<void>(call.release());
}

/// An event, behind which the function's turn has come, and a wait for a word that says that it ran.
void CudaQueue::call_without_driver(const Command& command, detail::HostFunction* function,
                                    std::shared_ptr<HostTimes> times) {
  constexpr const char* operation = "weir::host_call";
  const cudaStream_t queue = stream(command.where);
  StockEvent turn(device_, false, command.where);
  auto call = std::make_unique<Call>(Call{nullptr, &failures(), 0, command.where, label_, std::move(times)});
  std::unique_ptr<CudaSignal> signal = Signals::instance().make(failures(), command.where);
  const CudaSignal& word = *signal;
  call->place = word.place();
  auto when_reached = std::make_unique<CallWhenReached>(std::move(call), std::move(signal), std::move(turn));
  const cudaEvent_t event = when_reached->event();
  {
    const DeviceScope scope(device_.index());
    check(cudaEventRecord(event, queue), operation, label_, command.where);
    check(
        legacy_ || wrapped_ ? wait_aside(word.word(), word.count(), command.where) : word.hold(queue, device_.index()),
        operation, label_, command.where);
  }
  waited_.store(true, std::memory_order_relaxed);
  when_reached->own(function);
  CallWhenReached& sent = *when_reached;
  std::unique_ptr<Reached> reached = std::move(when_reached);
  try {
    Poller::instance().add(this, device_.index(), event, reached);
  } catch (...) {
    sent.disown();  // still the caller's, and the stream goes on
    throw;
  }
}

void CudaQueue::submit_external(const Command& command, detail::HostFunction* function) {
  const cudaStream_t queue = stream(command.where);
  if (!skips_all()) {
    const DeviceScope scope(device_.index());
    const RunningScope running("foreign work", command.where);
    function->call(NativeStream{queue});
  }
  if (capture_ == nullptr) delete function;  // a graph's node keeps it
}

}  // namespace weir::cuda
