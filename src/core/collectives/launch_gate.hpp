// A launch of a graph among the calls of its communicators, where their transport has gates for it.
#pragma once

#include <memory>
#include <vector>

#include "core/collectives/communicator_state.hpp"

namespace weir::detail {

/// Stands in a stream before a launch, and in a lane behind the calls before it. As a call it has one part, of nobody's rank.
class LaunchGate final : public LocalCall {
 public:
  LaunchGate(std::shared_ptr<CommunicatorState> communicator, StreamRef stream, SourceLocation where);

  /// The stream had failed before: the graph is not launched, and nobody waits for that.
  void fail_part(std::size_t, std::shared_ptr<const Error>) noexcept override;
  const LaunchGate* as_gate() const override { return this; }
  /// Its part goes into the stream, where nobody is told of it.
  void enter();
  /// As who looks for circles sees it, once it is there.
  WaitingLaunch waiting();

 private:
  std::shared_ptr<const Error> error_of(std::size_t index, Errc code, const std::string& text) const override;

  const StreamRef stream_;
  const SourceLocation where_;
};

/// While it lives the ranks of these communicators, where they are gated, do not call: what is put into the stream meanwhile comes
/// behind all their calls before, and, once launched() was called, before all those behind it.
class LaunchAmongCalls {
 public:
  /// Throws what begin_launch() does.
  LaunchAmongCalls(const std::vector<std::shared_ptr<CommunicatorState>>& communicators, StreamRef stream,
                   SourceLocation where);
  ~LaunchAmongCalls();
  LaunchAmongCalls(const LaunchAmongCalls&) = delete;
  LaunchAmongCalls& operator=(const LaunchAmongCalls&) = delete;
  void launched() noexcept;

 private:
  void end() noexcept;

  const std::vector<std::shared_ptr<CommunicatorState>>& communicators_;
  const StreamRef stream_;
  const SourceLocation where_;
  std::size_t begun_ = 0;
};

}  // namespace weir::detail
