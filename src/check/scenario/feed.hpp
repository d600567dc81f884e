// Scenarios for the engine: each command of a recording as the calls that it stands for.
#pragma once

#include <string>
#include <vector>

#include <weir/check.hpp>
#include <weir/recording.hpp>

#include "check/collect.hpp"
#include "check/engine.hpp"

namespace weir::check {

class ScenarioFeed {
 public:
  ScenarioFeed(const Recording& recording, const CheckOptions& options, std::string file, std::string device,
               SourceLocation where, const Rules& rules = {});

  void call(std::size_t place, const Misuse* misuse);
  CheckReport report();
  const Engine& engine() const { return engine_; }

 private:
  EngineOptions engine_options(const CheckOptions& options, const Rules& rules);
  std::string device_name(std::uint32_t place) const;
  void make(const recorded::Command& command, const Call& call);
  void refused(std::size_t place, const Misuse& misuse, const Call& call);

  const Recording& recording_;
  std::string file_;
  std::string device_;
  HostOrder host_order_;
  Collector collector_;
  Engine engine_;
  std::vector<std::uint32_t> streams_;  ///< the engine's
  std::vector<std::uint32_t> events_;
  bool finished_ = false;
};

}  // namespace weir::check
