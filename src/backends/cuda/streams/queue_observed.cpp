// Observed commands: when they ran.
#include <memory>
#include <utility>

#include <weir/kernel.hpp>

#include "backends/cuda/cuda_device.hpp"
#include "backends/cuda/cuda_error.hpp"
#include "backends/cuda/streams/cuda_queue.hpp"
#include "backends/cuda/streams/prepared_launch.hpp"

namespace weir::cuda {

namespace {

using How = TimedCommand::How;

How how_of(const Command& command) {
  if (const auto* launch = std::get_if<Launch>(&command.op))
    return is_global(*launch->kernel) ? How::events : How::kernel;
  if (std::holds_alternative<HostCall>(command.op)) return How::host;
  if (const auto* collective = std::get_if<Collective>(&command.op))
    return collective->part->call->is_told() ? How::events : How::part;
  const bool works = std::holds_alternative<Copy>(command.op) || std::holds_alternative<Fill>(command.op) ||
                     std::holds_alternative<External>(command.op) || std::holds_alternative<GraphLaunch>(command.op);
  return works ? How::events : How::no_time;
}

/// Empty: the driver takes none now. The command is not what is wrong.
StockEvent recorded(CudaDevice& device, cudaStream_t stream, SourceLocation where) {
  try {
    StockEvent event(device, true, where);
    const DeviceScope scope(device.index());
    const cudaError_t answer = cudaEventRecord(event.get(), stream);
    note(answer);
    if (answer == cudaSuccess) return event;
  } catch (...) {
    // It is not told when the command ran.
  }
  return {};
}

/// Of the command before: what is submitted now begins as soon as it is reached. Else there was a pause.
bool is_ahead(const StockEvent& end, int device) {
  const DeviceScope scope(device);
  const RelaxedScope relaxed;
  const cudaError_t answer = cudaEventQuery(end.get());
  note(answer);
  return answer == cudaErrorNotReady;
}

/// Null without memory.
template <class Times>
std::shared_ptr<Times> make_times() noexcept {
  try {
    return std::make_shared<Times>();
  } catch (...) {
    return nullptr;
  }
}

}  // namespace

Watched::Watched(CudaQueue& queue, const Command& command)
    : queue_(queue), is_over_(detail::returns_when_over(command.op)), where_(command.where) {
  if (command.id == 0 || queue.capture() != nullptr) return;
  const auto [place, before] = queue.times().add(queue, !std::holds_alternative<Record>(command.op));
  place_ = place;
  if (!place_) return;
  TimedCommand& timed = place_.command();
  timed.submitted = command.called();
  timed.id = command.id;
  timed.stream = queue.owner();
  timed.how = how_of(command);
  // Where many kernels are on their way, their block has no room to note times.
  if (timed.how == How::kernel && place_.kernel() == nullptr) timed.how = How::events;
  if (timed.how == How::events && !std::holds_alternative<GraphLaunch>(command.op)) {
    // Work of the legacy stream's, or of somebody else's, may stand between them.
    const bool alone = !queue.blocking() && !queue.legacy() && !queue.wrapped() && !queue.handle_known_;
    if (alone && before && is_ahead(before.command().end, queue.device().index())) {
      timed.behind = &before.command().end;
    } else {
      timed.begin = recorded(queue.device(), queue.stream(where_), where_);
    }
  }
  if (timed.how == How::host) timed.host = make_times<HostTimes>();
  if (timed.how == How::part) timed.part = make_times<PartTimes>();
}

Watched::~Watched() {
  if (!place_) return;
  place_.command().refused = true;
  place_.settle();
}

detail::KernelTimes* Watched::kernel() const {
  return place_ && place_.command().how == How::kernel ? place_.kernel() : nullptr;
}

std::shared_ptr<HostTimes> Watched::host() const { return place_ ? place_.command().host : nullptr; }
std::shared_ptr<PartTimes> Watched::part() const { return place_ ? place_.command().part : nullptr; }

void Watched::begin_replay(bool by_nodes) noexcept {
  if (!place_) return;
  TimedCommand& command = place_.command();
  replays_ = true;
  if (by_nodes) {
    command.how = How::nodes;
  } else if (!command.begin) {
    command.begin = recorded(queue_.device(), queue_.stream(where_), where_);
  }
}

void Watched::record_end() noexcept {
  CudaDevice& device = queue_.device();
  TimedCommand& command = place_.command();
  if (command.begin_event() == nullptr || command.end) return;
  command.end = recorded(device, is_over_ ? device.side_stream(where_) : queue_.stream(where_), where_);
  // Behind a replay its kernels' times are copied.
  if (command.end && !is_over_ && !replays_) queue_.times().note_end(place_);
}

void Watched::end_replay(const std::shared_ptr<const std::vector<std::uint32_t>>& nodes,
                         const std::vector<TimesMemory::Block>& blocks) noexcept {
  record_end();
  TimesMemory& memory = queue_.device().times_memory();
  try {
    auto replay = std::make_unique<ReplayTimes>(ReplayTimes{nodes, memory.take(blocks.size())});
    cudaError_t answer = cudaSuccess;
    for (std::size_t i = 0; i < replay->blocks.size() && answer == cudaSuccess; ++i) {
      answer = cudaMemcpyAsync(replay->blocks[i].on_device, blocks[i].on_device,
                               TimesMemory::block_size * sizeof(detail::KernelTimes), cudaMemcpyDeviceToDevice,
                               queue_.stream(where_));
    }
    note(answer);
    if (answer == cudaSuccess && !replay->blocks.empty()) place_.command().replay = std::move(replay);
  } catch (...) {
    // The replay is told as a whole.
  }
}

void Watched::end() {
  if (!place_) return;
  record_end();
  if (const std::shared_ptr<TimedBatch> full = place_.settle()) queue_.close_times(*full, where_);
}

void CudaQueue::close_times(TimedBatch& full, SourceLocation where) noexcept {
  if (deferred_.any()) return;  // they stay so: the stream is asked instead
  try {
    StockEvent behind(device_, false, where);
    const DeviceScope scope(device_.index());
    const cudaError_t answer = cudaEventRecord(behind.get(), stream(where));
    note(answer);
    if (answer == cudaSuccess) close(full, std::move(behind));
  } catch (...) {
    // The stream is asked instead.
  }
}

}  // namespace weir::cuda
