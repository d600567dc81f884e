// Host functions: owned by their queue, called by a thread of the driver's, their exceptions kept for the host.
#include <chrono>
#include <cstdlib>
#include <memory>
#include <utility>

#include <weir/host_call.hpp>

#include "backends/cuda/cuda_device.hpp"
#include "backends/cuda/cuda_queue.hpp"

namespace weir::cuda {

namespace {

using Clock = std::chrono::steady_clock;

/// Set when the process is ending: the driver may still call, but what functions use may be gone.
constinit std::atomic<bool> exiting{false};
void note_exit() {
  static const bool registered = std::atexit([] { exiting.store(true); }) == 0;
  static_cast<void>(registered);
}

/// Makes every Weir call on this thread an error that names what is running.
class RunningScope {
 public:
  RunningScope(const char* what, SourceLocation where)
      : state_(std::exchange(detail::thread_state, detail::ThreadState::running)),
        running_(std::exchange(detail::running_command, detail::RunningCommand{what, {}, where})) {}
  ~RunningScope() {
    detail::thread_state = state_;
    detail::running_command = running_;
  }
  RunningScope(const RunningScope&) = delete;
  RunningScope& operator=(const RunningScope&) = delete;

 private:
  detail::ThreadState state_;
  detail::RunningCommand running_;
};

std::string text_of(const std::exception_ptr& cause) {
  try {
    std::rethrow_exception(cause);
  } catch (const std::exception& e) {
    return e.what();
  } catch (...) {
    return "an exception that is no std::exception";
  }
}

struct Call {
  std::unique_ptr<detail::HostFunction> function;
  FailureState* failures;
  std::uint64_t place;
  SourceLocation where;
  std::string label;  ///< the queue may have another owner by then
};

std::shared_ptr<const Error> run(Call& call) {
  std::shared_ptr<const Error> error;
  const RunningScope scope("a host function", call.where);
  if (!call.failures->skips(call.place)) {
    try {
      call.function->call(NativeStream{});
    } catch (...) {
      const std::exception_ptr cause = std::current_exception();
      error = std::make_shared<const Error>(Errc::host_function_failed, "weir::host_call", call.label,
                                            "host function threw: " + text_of(cause), call.where, cause);
    }
  }
  call.function.reset();
  return error;
}

void run_call(void* data) {
  if (exiting.load(std::memory_order_relaxed)) return;
  const std::unique_ptr<Call> call(static_cast<Call*>(data));
  const std::shared_ptr<const Error> error = run(*call);
  call->failures->settle(call->place, error);
}

}  // namespace

void CudaQueue::submit_call(const Command& command, detail::HostFunction* function) {
  constexpr const char* operation = "weir::host_call";
  note_exit();
  const cudaStream_t queue = stream(command.where);
  ensure_flag(command.where);
  if (failures_.skips_all()) {
    delete function;
    return;
  }
  auto call = std::make_unique<Call>(Call{nullptr, &failures_, 0, command.where, label_});
  call->place = failures_.open_place();
  call->function.reset(function);
  const DeviceScope scope(device_.index());
  const cudaError_t answer = cudaLaunchHostFunc(queue, &run_call, call.get());
  if (answer != cudaSuccess) {
    static_cast<void>(call->function.release());  // still the caller's
    failures_.settle(call->place, nullptr);
    refuse(answer, operation, label_, command.where);
  }
  static_cast<void>(call.release());
}

void CudaQueue::submit_external(const Command& command, detail::HostFunction* function) {
  const cudaStream_t queue = stream(command.where);
  if (!failures_.skips_all()) {
    const DeviceScope scope(device_.index());
    const RunningScope running("foreign work", command.where);
    function->call(NativeStream{queue});
  }
  delete function;
}

struct Watched::Times {
  CommandId command;
  StreamId stream;
  Clock::time_point begin;
};

Watched::Watched(CudaQueue& queue, const Command& command) : queue_(queue), where_(command.where) {
  if (command.id == 0) return;
  auto times = std::make_unique<Times>(Times{command.id, queue.id_, {}});
  const cudaStream_t stream = queue.stream(where_);
  const DeviceScope scope(queue.device().index());
  const auto begin = [](void* data) { static_cast<Times*>(data)->begin = Clock::now(); };
  check(cudaLaunchHostFunc(stream, begin, times.get()), "weir: observing a command", queue.label(), where_);
  times_ = times.release();
}

void Watched::end() {
  if (times_ == nullptr) return;
  const DeviceScope scope(queue_.device().index());
  const auto report = [](void* data) {
    const std::unique_ptr<Times> times(static_cast<Times*>(data));
    detail::report_ran(times->command, times->stream, {times->begin, Clock::now()});
  };
  note(cudaLaunchHostFunc(queue_.stream(where_), report, times_));
}

}  // namespace weir::cuda
