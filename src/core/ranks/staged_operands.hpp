// A rank whose arrays the host does not reach: messages are of pinned copies of them, or of dense ones where they are.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "core/collectives/communicator_state.hpp"

namespace weir::detail {

class StagedOperands {
 public:
  /// Nothing is staged.
  StagedOperands() = default;
  enum class To : std::uint8_t {
    pinned,
    dense  ///< memory of the device, of what has strides
  };
  /// Copies what the call of `rank` reads, in the order of its stream. Like the calls of others, unseen by observers.
  StagedOperands(const Offer& offer, int rank, To to);

  /// Says what the call does, of the copies. For the engine alone: regions are those of the arrays.
  void put(const Offer& offer, std::optional<Offer>& staged) const;
  /// The call is in its stream: what it gives goes to the arrays behind it.
  void take_out();

 private:
  struct Release {
    void operator()(Storage* storage) const noexcept { release(storage); }
  };
  using Pinned = std::unique_ptr<Storage, Release>;
  struct Side {
    CollectiveOperand array;
    CollectiveOperand copy;
    Pinned memory;
  };
  Side stage(const CollectiveOperand& operand) const;
  void copy(const CollectiveOperand& to, const CollectiveOperand& from) const;

  To to_ = To::pinned;
  StreamRef stream_;
  SourceLocation where_;
  const char* operation_ = "";
  Side in_;
  Side out_;
  bool takes_out_ = false;
};

}  // namespace weir::detail
