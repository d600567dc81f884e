// Host functions: owned by their queue, called by a thread of the driver's, their exceptions kept for the host.
#include <chrono>
#include <memory>
#include <utility>

#include <weir/host_call.hpp>

#include "backends/cuda/cuda_device.hpp"
#include "backends/cuda/driver.hpp"
#include "backends/cuda/graphs/driver_graph.hpp"
#include "backends/cuda/streams/cuda_queue.hpp"
#include "backends/cuda/streams/host_functions.hpp"
#include "failure_reports.hpp"

namespace weir::cuda {

namespace {

using Clock = std::chrono::steady_clock;

struct Call {
  std::unique_ptr<detail::HostFunction> function;
  FailureState* failures;
  std::uint64_t place;
  SourceLocation where;
  std::string label;  ///< the queue may have another owner by then
};

void run_call(void* data) {
  if (is_exiting()) return;
  const std::unique_ptr<Call> call(static_cast<Call*>(data));
  std::shared_ptr<const Error> error;
  if (!call->failures->skips(call->place)) error = call_function(*call->function, call->label, call->where);
  {
    const RunningScope scope("a host function", call->where);  // its destructor is the user's code, too
    call->function.reset();
  }
  if (error) detail::note_unseen(error);
  call->failures->settle(call->place, error);
}

}  // namespace

void CudaQueue::submit_call(const Command& command, detail::HostFunction* function) {
  constexpr const char* operation = "weir::host_call";
  if (capture_ != nullptr) {
    capture_->add_call(*this, command, *function);
    capture_->own(std::shared_ptr<detail::HostFunction>(function));
    return;
  }
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
  const cudaError_t answer = in_context([&] { return driver().launch_host_function(queue, &run_call, call.get()); },
                                        [&] { return cudaLaunchHostFunc(queue, &run_call, call.get()); });
  if (answer != cudaSuccess) {
    static_cast<void>(call->function.release());  // still the caller's
    failures_.settle(call->place, nullptr);
    refuse(answer, operation, label_, command.where);
  }
  static_cast<void>(call.release());
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

struct Watched::Times {
  CommandId command;
  StreamId stream;
  Clock::time_point begin;
};

Watched::Watched(CudaQueue& queue, const Command& command) : queue_(queue), where_(command.where) {
  if (command.id == 0 || queue.capture() != nullptr) return;
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
