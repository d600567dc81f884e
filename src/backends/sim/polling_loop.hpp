// What a host thread asks and works while real work is late.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <string_view>
#include <vector>

#include <weir/observer.hpp>

namespace weir::sim {

/// By the virtual clock a loop that asks and works ends when all that it asks is over. For real it may turn some times more, which
/// must not be seen. So what a thread works is taken back when it then asks a question again, at the same line, that it had
/// asked before that work, if from there on all answers were yes by the clock, and the program was told no for one of them.
class PollingLoop {
 public:
  /// The thread asks. What is taken back is its work since its time was `clock`, which it is again.
  std::chrono::nanoseconds ask(const HostWait& question, double& clock) {
    if (!worked_) return std::chrono::nanoseconds(0);
    const bool again = std::any_of(find(question), asked_.end(), [](const Asked& one) { return one.late; });
    const std::chrono::nanoseconds back = again ? work_ : std::chrono::nanoseconds(0);
    if (again) clock = before_;
    end();
    return back;
  }
  /// What the virtual clock said.
  void answered(const HostWait& question, bool yes) {
    if (!yes) return end();
    if (const auto found = find(question); found != asked_.end()) asked_.erase(found);
    asked_.push_back({question});
  }
  /// It said yes, and the program is told no.
  void late(const HostWait& question) {
    if (const auto found = find(question); found != asked_.end()) found->late = true;
  }

  bool may_take_back() const {
    return std::any_of(asked_.begin(), asked_.end(), [](const Asked& one) { return one.late; });
  }
  void work(std::chrono::nanoseconds time, double clock) {
    if (!may_take_back()) return end();
    if (!worked_) before_ = clock;
    worked_ = true;
    work_ += time;
  }
  /// The thread reads its time: what it has seen stands. Whether it had worked.
  bool seen() {
    const bool worked = worked_;
    if (worked) end();
    return worked;
  }
  /// The thread does something else.
  void end() {
    asked_.clear();
    worked_ = false;
    work_ = std::chrono::nanoseconds(0);
  }

  /// What it worked, in microseconds, that the models do not know yet: it may be taken back.
  double kept = 0;

 private:
  struct Asked {
    HostWait question;
    bool late = false;
  };
  std::vector<Asked>::iterator find(const HostWait& question) {
    return std::find_if(asked_.begin(), asked_.end(), [&](const Asked& asked) {
      const HostWait& one = asked.question;
      return one.kind == question.kind && one.stream == question.stream && one.event_id == question.event_id &&
             one.where.line() == question.where.line() &&
             std::string_view(one.where.file_name()) == question.where.file_name();
    });
  }

  std::vector<Asked> asked_;  ///< since the last work or no, in the order of when each was asked last
  bool worked_ = false;
  std::chrono::nanoseconds work_{0};
  double before_ = 0;  ///< the thread's time before its work
};

}  // namespace weir::sim
