// The checks of `weir selftest`: each tries one rule on a device.
#pragma once

#include <span>
#include <string>

#include <weir/device.hpp>

#include "scenario.hpp"

namespace tool {

enum class Outcome { kept, broken, skipped };

struct Verdict {
  Outcome outcome = Outcome::kept;
  std::string detail = {};  ///< why it is broken or was skipped
};

/// The first thing that is not as it should be, if any.
class Judgement {
 public:
  /// Notes `what` unless `good`.
  Judgement& expect(bool good, const std::string& what);
  /// Notes what a played scenario found broken.
  Judgement& expect(const Scenario& scene);
  operator Verdict() const { return verdict_; }

 private:
  Verdict verdict_;
};

struct Check {
  const char* name;   ///< a sentence that is true of a device that keeps the rule
  const char* rules;  ///< ids of the behaviours and rules in docs/ordering.md
  Verdict (*run)(weir::Device);
};

std::span<const Check> stream_checks();  ///< checks_streams.cpp: streams, default streams, events, host functions
std::span<const Check> memory_checks();  ///< checks_memory.cpp: copies and stream-ordered memory
std::span<const Check> work_checks();    ///< checks_work.cpp: kernels, failures, priorities, lifetime

/// Two commands on streams that nothing orders, expected in order: broken on every device that works. The selftest's
/// proof that it would notice, and what --show-failure shows.
Verdict forgotten_wait(weir::Device device);

/// A hazard of each kind that the checker must find, in scenarios and, as far as it can, in programs; checks_checker.cpp.
Verdict planted_hazards(weir::Device device);

}  // namespace tool
