// The seam between collectives of several processes and what carries their bytes: messages from rank to rank.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace weir::detail {

/// One message under way. It stays where it is from send() or receive() until it is no longer `under_way`.
struct Transfer {
  enum class State : std::uint8_t { idle, under_way, done, too_long, failed };
  State state = State::idle;
  std::size_t bytes = 0;             ///< received
  std::uint64_t handle[2] = {0, 0};  ///< the link's
};

/// Messages of one tag between two ranks arrive in the order of their calls; a receive takes the next one. A rank may send to
/// itself. Thread rule: one thread at a time. No call waits.
class RankLink {
 public:
  virtual ~RankLink() = default;
  /// As Communicator::transport() has it.
  virtual std::string_view name() const = 0;
  virtual void send(Transfer& transfer, int to, std::uint32_t tag, const std::byte* data, std::size_t bytes) = 0;
  /// `room`: bytes. A longer message is `too_long`.
  virtual void receive(Transfer& transfer, int from, std::uint32_t tag, std::byte* data, std::size_t room) = 0;
  /// Many sends follow, up to give_out(): they may go together then.
  virtual void gather() {}
  virtual void give_out() {}
  /// Looks whether it is over; moves what can be moved.
  virtual void test(Transfer& transfer) = 0;
  /// Gives it up. True: its memory is nobody's business any more. False: ask again.
  virtual bool cancel(Transfer& transfer) = 0;
  /// A rank is gone: it may not be waited for any more.
  virtual void forget(int /*rank*/) {}
  /// The communicator has failed: nothing is to be waited for when the link ends.
  virtual void abandon() {}
  /// Whether ranks that are left may go on when one has failed.
  virtual bool outlives_ranks() const { return false; }
  /// Whether messages may be in a GPU's memory.
  virtual bool reaches_devices() const { return false; }
  /// Tags are below this.
  virtual std::uint32_t tag_limit() const { return UINT32_MAX; }
};

}  // namespace weir::detail
