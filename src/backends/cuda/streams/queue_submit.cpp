// Every other command, by its kind.
#include "backends/cuda/streams/cuda_queue.hpp"

#include "backends/cuda/cuda_device.hpp"
#include "backends/cuda/graphs/cuda_graph.hpp"
#include "backends/cuda/graphs/driver_graph.hpp"
#include "backends/cuda/streams/cuda_event.hpp"
#include "backends/cuda/streams/room.hpp"

namespace weir::cuda {

void CudaQueue::submit(const Command& command) {
  if (const auto* launch = std::get_if<Launch>(&command.op); launch != nullptr && launch_noted(command, *launch))
    return;
  if (capture_ != nullptr) capture_->expect(*this, command.where);
  Watched watched(*this, command);
  const LegacyWork legacy(*this);
  const RoomCall room;
  visit_op(
      command.op, [&](const Launch& launch) { submit_launch(command, launch, watched.kernel()); },
      [&](const Copy& copy) { submit_copy(command, copy); }, [&](const Fill& fill) { submit_fill(command, fill); },
      [](const Alloc&) {},  // the pool has done it
      [](const Free&) {},
      [&](const Record& op) {
        auto& event = static_cast<CudaEvent&>(*op.event);
        capture_ != nullptr ? record_in_graph(event, command.where) : record(event, command.where);
      },
      [&](const Wait& op) {
        auto& event = static_cast<CudaEvent&>(*op.event);
        capture_ != nullptr ? wait_in_graph(event, command.where) : wait(event, command.where);
      },
      [&](const HostCall& call) {
        capture_ != nullptr ? capture_->add_call(*this, command, *call.function)
                            : submit_call(command, call.function, watched.host());
      },
      [&](const External& call) { submit_external(command, call.function); },
      [&](const GraphLaunch& launch) {
        static_cast<CudaGraph*>(launch.graph->executable)->launch(*this, command.where, watched);
      },
      [&](const Collective& op) { submit_collective(command, *op.part, watched.part()); });
  watched.end();
}

}  // namespace weir::cuda
