// The multiprocessors' places: how many blocks of a kernel begin now, beside those of others.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "backends/sim/model/profile.hpp"
#include "backends/sim/model/program.hpp"

namespace weir::sim::model {

class Places {
 public:
  explicit Places(const Profile& profile)
      : profile_(profile),
        threads_(profile.sms * profile.threads_per_sm),
        blocks_(profile.sms * profile.blocks_per_sm),
        shared_(profile.sms * profile.shared_bytes_per_sm) {}

  /// Blocks of such a kernel that one multiprocessor holds, at least 1: what fits nowhere is refused before.
  double per_sm(const Task& kernel) const {
    double most = std::min(profile_.blocks_per_sm, std::floor(profile_.threads_per_sm / threads_of(kernel)));
    if (kernel.shared_bytes > 0) most = std::min(most, std::floor(profile_.shared_bytes_per_sm / kernel.shared_bytes));
    return std::max(most, 1.0);
  }
  /// How many blocks more find a place, beside `resident` ones of the same kernel.
  double free(const Task& kernel, double resident) const {
    double room = std::min(blocks_, std::floor(threads_ / threads_of(kernel)));
    if (kernel.shared_bytes > 0) room = std::min(room, std::floor(shared_ / kernel.shared_bytes));
    return std::max(0.0, std::min(room, profile_.sms * per_sm(kernel) - resident));
  }
  void take(const Task& kernel, double blocks) { add(kernel, -blocks); }
  void give_back(const Task& kernel, double blocks) { add(kernel, blocks); }

 private:
  /// Blocks take whole warps of 32 threads, or all that a multiprocessor has.
  double threads_of(const Task& kernel) const {
    return std::min(profile_.threads_per_sm, 32.0 * std::max(1.0, std::ceil(kernel.threads / 32.0)));
  }
  void add(const Task& kernel, double blocks) {
    threads_ += blocks * threads_of(kernel);
    blocks_ += blocks;
    shared_ += blocks * kernel.shared_bytes;
  }

  const Profile& profile_;
  double threads_;
  double blocks_;
  double shared_;
};

}  // namespace weir::sim::model
