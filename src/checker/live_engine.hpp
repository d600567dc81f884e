// The engine, told of a program as it runs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include <weir/check.hpp>

#include "check/engine.hpp"
#include "recording/recorder_objects.hpp"
#include "recording/sink.hpp"
#include "recording/texts.hpp"

namespace weir::check {

/// Thread rule: one at a time.
class LiveEngine final : public recorded::Sink {
 public:
  /// `found` is told of each finding.
  LiveEngine(const CheckOptions& options, std::function<void(Finding)> found);
  /// Who knows the memory that commands name; before the first command.
  void use(const recorded::Objects& objects) { objects_ = &objects; }

  recorded::Name intern(std::string_view text) override { return texts_.intern(text, budget_); }
  std::string_view text(recorded::Name name) const override { return texts_[name]; }
  std::uint32_t add_thread(recorded::Name name) override;
  std::uint32_t add(const recorded::Device& device) override;
  std::uint32_t add(const recorded::Stream& stream, const StreamInfo& info) override;
  std::uint32_t add(const recorded::Event& event) override;
  std::size_t add(const recorded::Command& command, const recorded::Details& details, CommandId id) override;
  bool forget_buffer(std::uint32_t place) override;
  bool forget_event(std::uint32_t place) override { return engine_.forget_event(place); }
  void part_gone(const recorded::Command& free, std::uint64_t begin, std::uint64_t end) override;
  void try_part_gone(const recorded::Command& free, std::uint64_t begin, std::uint64_t end);
  void gave(CommandId host_function, recorded::Name hand_off) override { engine_.gave(host_function, hand_off); }

  /// What the command would complete is found, and the command is forgotten once the attempt ends.
  void try_command(const recorded::Command& command, std::span<const Use> uses, CommandId id,
                   const std::optional<recorded::Collective>& collective = {});
  void end_attempt(bool refused) { engine_.end_attempt(refused); }
  /// The command that will be added is one.
  void expect_collective(CommandId id) { collectives_.insert(id); }
  /// Of memory that the program had pinned.
  void unpinned(const recorded::MemoryMap::Part& part);
  void name(std::uint32_t place, std::string_view name);
  void shared(std::uint32_t stream, SourceLocation where);
  /// Of an array that DLPack brought, or takes elsewhere; `place` as in uses.
  void exchanged(std::uint32_t place, bool imported, SourceLocation where);
  /// What has touched memory until now, to take less of it.
  void forget_uses() { engine_.forget_uses(); }
  void capture_began(std::uint64_t capture, std::uint32_t stream, SourceLocation where);
  void capture_ended(std::uint64_t capture) { captures_.erase(capture); }
  void finish();

  std::uint64_t commands() const { return commands_; }
  const std::vector<Unchecked>& unchecked() const { return engine_.unchecked(); }
  std::size_t accesses() const { return engine_.history_size(); }
  std::size_t bytes() const { return budget_.used() + engine_.history_bytes(); }
  std::string device() const { return devices_.empty() ? "cpu" : devices_.front(); }

 private:
  EngineOptions engine_options(const CheckOptions& options, std::function<void(Finding)> found);
  Call call_of(const recorded::Command& command, CommandId id) const;
  std::uint32_t buffer(std::uint32_t place, const Call& call) {
    const bool known = place < buffers_.size() && buffers_[place].engine != none;
    if (known && buffers_[place].kind == objects_->buffer(place).kind) return buffers_[place].engine;
    return make_or_update(place, call);
  }
  std::uint32_t make_or_update(std::uint32_t place, const Call& call);
  std::vector<Use> here(std::span<const Use> uses, const Call& call);
  std::vector<recorded::Node> here(std::span<const recorded::Node> nodes, const Call& call);

  recorded::Budget budget_;
  recorded::Texts texts_;
  const recorded::Objects* objects_ = nullptr;
  std::vector<std::string> devices_;
  std::vector<std::string> threads_;
  struct Known {
    std::uint32_t engine = none;
    MemoryKind kind = MemoryKind::device;
  };
  std::vector<Known> buffers_;           ///< the engine's, by the places in Objects
  std::vector<std::uint32_t> ranges_;    ///< the engine's, of memory that nobody was seen to allocate
  std::vector<std::uint32_t> range_of_;  ///< and back
  std::size_t merges_seen_ = 0;          ///< of the memory's
  std::vector<Use> uses_;                ///< of the command at hand
  std::uint64_t commands_ = 0;
  std::unordered_set<CommandId> collectives_;  ///< that are about to be added
  struct OpenCapture {
    std::uint32_t stream;
    const char* file;
    std::uint32_t line;
  };
  std::map<std::uint64_t, OpenCapture> captures_;
  Engine engine_;
};

}  // namespace weir::check
