// Copies of what ranks on GPUs give and get.
#include "core/ranks/staged_operands.hpp"

#include <weir/detail/arguments.hpp>

#include "core/checks.hpp"
#include "core/collectives/work.hpp"
#include "core/memory/dense.hpp"
#include "core/runtime.hpp"

namespace weir::detail {

namespace {

int device_index(const CollectiveOperand& operand) {
  const DeviceState* const device = operand.storage != nullptr ? operand.storage->device : device_of(operand.data);
  return device != nullptr ? device->index : 0;
}

MemoryKind kind_of(const CollectiveOperand& operand) {
  if (operand.storage != nullptr) return operand.storage->kind;
  const auto found = locate(operand.data);
  return found ? found->kind : MemoryKind::pageable;
}

}  // namespace

StagedOperands::StagedOperands(const Offer& offer, int rank, To to)
    : to_(to), stream_(offer.stream), where_(offer.where), operation_(operation_of(offer.request.kind)) {
  const CollectiveRequest& request = offer.request;
  const bool root = request.peer == rank;
  const bool spreads = request.kind == CollectiveKind::broadcast && root;
  const bool reads = request.kind != CollectiveKind::scatter || root;
  const bool writes = (request.kind != CollectiveKind::reduce && request.kind != CollectiveKind::gather) || root;
  if (reads) in_ = stage(request.in);
  if (writes) out_ = stage(request.out);
  if (in_.memory) copy(in_.copy, in_.array);
  if (out_.memory && spreads) copy(out_.copy, out_.array);
  takes_out_ = out_.memory && !spreads;
}

/// Without memory where there is nothing to copy, or messages may be of it.
StagedOperands::Side StagedOperands::stage(const CollectiveOperand& operand) const {
  Side side;
  if (operand.count() == 0) return side;
  if (to_ == To::dense ? Elements(operand, 0).dense : kind_of(operand) != MemoryKind::device) return side;
  side.array = side.copy = operand;
  const bool pinned = to_ == To::pinned;
  side.memory.reset(make_storage(operation_, pinned ? MemoryKind::pinned : MemoryKind::device,
                                 pinned ? StreamRef() : stream_, operand.layout.shape, operand.layout.element_bytes,
                                 operand.alignment, nullptr, where_));
  use(*side.memory, stream_, false, operation_, where_);
  side.copy.storage = side.memory.get();
  side.copy.data = static_cast<std::byte*>(side.memory->data);
  side.copy.layout = dense(operand.layout.shape, operand.layout.element_bytes);
  return side;
}

void StagedOperands::copy(const CollectiveOperand& to, const CollectiveOperand& from) const {
  Copy op{};
  op.to = to.data;
  op.from = from.data;
  op.to_layout = to.layout;
  op.from_layout = from.layout;
  op.to_kind = kind_of(to);
  op.from_kind = kind_of(from);
  if (op.to_kind == MemoryKind::device) op.to_device = device_index(to);
  if (op.from_kind == MemoryKind::device) op.from_device = device_index(from);
  Command command;
  command.where = where_;
  command.op = op;
  state_of(stream_, operation_, where_).queue->submit(command);
}

void StagedOperands::put(const Offer& offer, std::optional<Offer>& staged) const {
  staged = offer;
  if (in_.memory) staged->request.in = in_.copy;
  if (out_.memory) staged->request.out = out_.copy;
}

void StagedOperands::take_out() {
  if (std::exchange(takes_out_, false)) copy(out_.array, out_.copy);
}

}  // namespace weir::detail
