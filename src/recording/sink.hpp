// Who is told what a running program does, as parts of a recording: a Recording that keeps them, or a checker that does not.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include <weir/observer.hpp>
#include <weir/recording.hpp>

namespace weir::recorded {

/// Buffers are told at the end (Objects::finish), or looked up: uses and targets have their places in Objects.
/// Thread rule: one at a time.
class Sink {
 public:
  virtual ~Sink() = default;
  virtual Name intern(std::string_view text) = 0;
  /// What was interned.
  virtual std::string_view text(Name name) const = 0;
  virtual std::uint32_t add_thread(Name name) = 0;
  virtual std::uint32_t add(const Device& device) = 0;
  virtual std::uint32_t add(const Stream& stream, const StreamInfo& info) = 0;
  virtual std::uint32_t add(const Event& event) = 0;
  /// Returns its place among the commands. `id`: the library's, 0 for what has none.
  virtual std::size_t add(const Command& command, const Details& details = {}, CommandId id = 0) = 0;
  /// Whether commands stay, so that one can have the uses of the one at `place`.
  virtual bool keeps() const { return false; }
  virtual std::size_t add_like(const Command&, std::size_t /*place*/, const std::optional<Cost>&, CommandId) {
    return none;
  }
  /// What has ended, and will not be named again: whether its place may be another one's from here on. A recording keeps all.
  virtual bool forget_buffer(std::uint32_t /*place*/) { return false; }
  virtual bool forget_event(std::uint32_t /*place*/) { return false; }
  /// Some bytes of a range of host memory end, and the rest stays: a recording has no words for that.
  virtual void part_gone(const Command& /*free*/, std::uint64_t /*begin*/, std::uint64_t /*end*/) {}
  /// The launch of a graph at `place`, which has host functions; `paths` are those of its nodes.
  virtual void launched(std::size_t /*place*/, CommandId /*launch*/,
                        const std::shared_ptr<const std::vector<Name>>& /*paths*/) {}
  /// A host function gives, now that it runs.
  virtual void gave(CommandId host_function, Name hand_off) = 0;
};

}  // namespace weir::recorded
