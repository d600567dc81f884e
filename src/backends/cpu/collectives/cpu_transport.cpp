// Collectives among CPU devices.
#include "backends/cpu/collectives/cpu_transport.hpp"

#include <algorithm>
#include <cstdint>

#include "backends/cpu/cpu_device.hpp"
#include "backends/cpu/streams/cpu_queue.hpp"

namespace weir::cpu {

namespace {
Queue* given() { return reinterpret_cast<Queue*>(std::uintptr_t{1}); }
}  // namespace

CpuTransport::CpuTransport(std::vector<CpuDevice*> devices, bool simulated)
    : devices_(std::move(devices)), simulated_(simulated) {
  for (std::size_t i = 0; i < devices_.size(); ++i) {
    const auto before = devices_.begin() + static_cast<std::ptrdiff_t>(i);
    if (std::find(devices_.begin(), before, devices_[i]) == before && i != 0) {
      helpers_.push_back(&open_queue(*devices_[i]));
    }
  }
}

CpuTransport::~CpuTransport() {
  for (CpuQueue* queue : lanes_) {
    if (queue != nullptr) queue->retire();
  }
  for (CpuQueue* queue : helpers_) queue->retire();
}

CpuQueue& CpuTransport::open_queue(CpuDevice& device) {
  QueueOptions options;
  options.kind = QueueOptions::Kind::internal;
  options.blocking = false;
  options.label = "collectives";
  return device.open_queue(options);
}

void CpuTransport::run(detail::CollectiveCall& call, std::size_t lane) {
  if (lanes_.size() <= lane) lanes_.resize(lane + 1);
  if (lanes_[lane] == nullptr) lanes_[lane] = &open_queue(*devices_.front());
  CpuQueue& queue = *lanes_[lane];
  const std::uint64_t number = queue.append_gather(call, *this);
  for (detail::CollectivePart& part : call.parts()) {
    Queue* const parked = part.parked.load(std::memory_order_seq_cst);
    if (parked != nullptr && parked != given()) static_cast<CpuQueue*>(parked)->help_in(queue, number);
  }
}

void CpuTransport::give(detail::CollectivePart& part) noexcept {
  Queue* const parked = part.parked.exchange(given(), std::memory_order_seq_cst);
  if (parked != nullptr && parked != given()) static_cast<CpuQueue*>(parked)->resume();
}

}  // namespace weir::cpu
