// Slices and short integers on their way to NCCL and back.
#include "backends/cuda/collectives/staging.hpp"

#include <utility>

#include "backends/cuda/collectives/nccl_calls.hpp"
#include "backends/cuda/collectives/widen_kernels.hpp"
#include "backends/cuda/cuda_device.hpp"
#include "backends/cuda/cuda_error.hpp"
#include "backends/cuda/memory/cuda_pool.hpp"
#include "backends/cuda/memory/layout.hpp"
#include "backends/cuda/streams/cuda_queue.hpp"

namespace weir::cuda {

namespace {

using detail::CollectiveOperand;
using detail::ElementKind;

constexpr const char* staging = "weir: a collective";

bool is_short(const CollectiveOperand& operand) {
  return operand.kind == ElementKind::i16 || operand.kind == ElementKind::u16;
}

}  // namespace

NcclElements nccl_elements(const CollectiveOperand& operand, bool reduced) {
  if (reduced) {
    switch (operand.kind) {
      case ElementKind::i8: return {NcclType::i8, 1, 1};
      case ElementKind::u8: return {NcclType::u8, 1, 1};
      case ElementKind::i16:
      case ElementKind::i32: return {NcclType::i32, 4, 1};
      case ElementKind::u16:
      case ElementKind::u32: return {NcclType::u32, 4, 1};
      case ElementKind::i64: return {NcclType::i64, 8, 1};
      case ElementKind::u64: return {NcclType::u64, 8, 1};
      case ElementKind::f32: return {NcclType::f32, 4, 1};
      case ElementKind::f64: return {NcclType::f64, 8, 1};
      case ElementKind::f16: return {NcclType::f16, 2, 1};
      case ElementKind::bf16: return {NcclType::bf16, 2, 1};
      case ElementKind::other: break;
    }
  }
  return {NcclType::u8, 1, operand.layout.element_bytes};
}

bool needs_staging(const CollectiveOperand& operand, bool reduced) {
  if (!operand.present() || operand.count() == 0) return false;
  return !is_dense(operand.layout) || (reduced && is_short(operand));
}

Staging::~Staging() {
  for (const auto& [lane, data] : memory_) {
    try {
      lane->device().default_pool().release_unshared(*lane, true, lane->owner(), data, where_);
    } catch (...) {
      // Better kept than used when it is gone.
    }
  }
}

void* Staging::allocate(CudaQueue& lane, std::size_t bytes) {
  memory_.reserve(memory_.size() + 1);
  void* const data = lane.device().default_pool().allocate(lane, bytes, staging, where_);
  memory_.emplace_back(&lane, data);
  return data;
}

void Staging::copy(CudaQueue& lane, void* to, const Layout& to_layout, const void* from, const Layout& from_layout) {
  Copy one{};
  one.to = to;
  one.from = from;
  one.to_layout = to_layout;
  one.from_layout = from_layout;
  one.to_kind = one.from_kind = MemoryKind::device;
  one.to_device = one.from_device = lane.device().index();
  Command command;
  command.where = where_;
  command.op = one;
  lane.submit(command);
}

void* Staging::bring(CudaQueue& lane, const CollectiveOperand& operand, bool reduced) {
  if (!needs_staging(operand, reduced)) return operand.data;
  const Layout dense = dense_layout(operand.layout.shape, operand.layout.element_bytes);
  void* data = operand.data;
  if (!is_dense(operand.layout)) {
    data = allocate(lane, operand.count() * operand.layout.element_bytes);
    copy(lane, data, dense, operand.data, operand.layout);
  }
  if (!reduced || !is_short(operand)) return data;
  void* const wide = allocate(lane, operand.count() * sizeof(std::int32_t));
  const DeviceScope scope(lane.device().index());
  check(launch_widen(wide, data, operand.count(), operand.kind == ElementKind::i16, lane.stream(where_)), staging,
        lane.label(), where_);
  return wide;
}

void* Staging::room_for(CudaQueue& lane, const CollectiveOperand& operand, bool reduced) {
  if (!needs_staging(operand, reduced)) return operand.data;
  results_.reserve(results_.size() + 1);
  const std::size_t bytes = reduced && is_short(operand) ? sizeof(std::int32_t) : operand.layout.element_bytes;
  void* const room = allocate(lane, operand.count() * bytes);
  results_.push_back({&lane, operand, room, reduced});
  return room;
}

std::pair<void*, void*> Staging::bring_in(CudaQueue& lane, const detail::CollectiveShare& share) {
  const detail::CollectiveRequest& request = share.request;
  const bool reduced = request.reduction != detail::Reduction::none;
  if (request.kind == detail::CollectiveKind::broadcast) {
    void* const only =
        share.rank == request.peer ? bring(lane, request.out, reduced) : room_for(lane, request.out, reduced);
    return {only, only};
  }
  void* const from = reads(share) ? bring(lane, request.in, reduced) : nullptr;
  void* const to = writes(share) ? room_for(lane, request.out, reduced) : nullptr;
  return {from, to};
}

void Staging::take_out() {
  for (const Result& result : results_) {
    CudaQueue& lane = *result.lane;
    const CollectiveOperand& operand = result.operand;
    const Layout dense = dense_layout(operand.layout.shape, operand.layout.element_bytes);
    void* from = result.from;
    if (result.reduced && is_short(operand)) {
      void* const to =
          is_dense(operand.layout) ? operand.data : allocate(lane, operand.count() * operand.layout.element_bytes);
      const DeviceScope scope(lane.device().index());
      check(launch_narrow(to, from, operand.count(), lane.stream(where_)), staging, lane.label(), where_);
      from = to;
    }
    if (!is_dense(operand.layout)) copy(lane, operand.data, operand.layout, from, dense);
  }
}

}  // namespace weir::cuda
