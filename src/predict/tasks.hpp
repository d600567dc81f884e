// What commands keep a device busy with: kinds and costs.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include <weir/recording.hpp>

#include "backends/sim/model/profile.hpp"
#include "backends/sim/model/program.hpp"

namespace weir::predict {

class Tasks {
 public:
  Tasks(const Recording& recording, const sim::model::Profile& profile, bool by_bytes)
      : recording_(recording), profile_(profile), by_bytes_(by_bytes) {}

  /// Throws what is wrong with it: a text.
  sim::model::Task make(recorded::Op op, std::span<const recorded::Use> uses,
                        const std::optional<recorded::Cost>& cost) const;

 private:
  void by_the_driver(sim::model::Task& task) const;
  sim::model::Task kernel(std::span<const recorded::Use> uses, const std::optional<recorded::Cost>& cost) const;
  sim::model::Task copy(const recorded::Use& to, const recorded::Use& from) const;

  const Recording& recording_;
  const sim::model::Profile& profile_;
  bool by_bytes_;
};

}  // namespace weir::predict
