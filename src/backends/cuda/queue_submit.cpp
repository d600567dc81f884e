// Every other command, by its kind.
#include "backends/cuda/cuda_queue.hpp"

#include "backends/cuda/cuda_device.hpp"

namespace weir::cuda {

void CudaQueue::submit(const Command& command) {
  Watched watched(*this, command);
  visit_op(
      command.op, [&](const Launch& launch) { submit_launch(command, launch); },
      [&](const Copy& copy) { submit_copy(command, copy); }, [&](const Fill& fill) { submit_fill(command, fill); },
      [](const Alloc&) {},  // the pool has done it
      [](const Free&) {}, [&](const Record& record_op) { record(*record_op.event, command.where); },
      [&](const Wait& wait_op) { wait(*wait_op.event, command.where); },
      [&](const HostCall& call) { submit_call(command, call.function); },
      [&](const External& call) { submit_external(command, call.function); },
      [&](const GraphLaunch&) {
        throw Error(Errc::not_supported, "weir::Graph::launch", label_, "the CUDA backend has no graphs yet",
                    command.where);
      });
  watched.end();
}

}  // namespace weir::cuda
