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

/// How a recording is read.
struct Rules {
  bool by_bytes = false;    ///< costs of kernels are left aside
  bool own_copies = false;  ///< pageable copies are Weir's
};

class Tasks {
 public:
  Tasks(const Recording& recording, const sim::model::Profile& profile, const Rules& rules)
      : recording_(recording), profile_(profile), rules_(rules) {}

  /// Throws what is wrong with it: a text.
  sim::model::Task make(recorded::Op op, std::span<const recorded::Use> uses,
                        const std::optional<recorded::Cost>& cost) const;

 private:
  sim::model::Task kernel(std::span<const recorded::Use> uses, const std::optional<recorded::Cost>& cost) const;
  sim::model::Task copy(const recorded::Use& to, const recorded::Use& from) const;

  const Recording& recording_;
  const sim::model::Profile& profile_;
  Rules rules_;
};

}  // namespace weir::predict
