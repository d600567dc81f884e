// Collectives among CPU devices of this process: one rank's memory is every other rank's, so the work is a loop.
#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

#include "backend.hpp"
#include "collective_launches.hpp"

namespace weir::cpu {

class CpuDevice;
class CpuQueue;

/// Its queues, one a lane, hold a record for each collective, which waits for all parts' places. Calls keep it alive.
class CpuTransport final : public detail::GatedTransport {
 public:
  /// `simulated`: behind devices of a model, which knows of no part before a launch.
  CpuTransport(std::vector<CpuDevice*> devices, bool simulated);
  ~CpuTransport() override;

  std::string_view name() const override { return "shared memory"; }
  bool launches_are_calls() const override { return !simulated_; }
  void run(detail::CollectiveCall& call, std::size_t lane) override;
  void let_go(detail::CollectivePart& part) noexcept override { give(part); }

  static void give(detail::CollectivePart& part) noexcept;
  /// One on each other device, for shares of large work.
  const std::vector<CpuQueue*>& helpers() const { return helpers_; }

 private:
  static CpuQueue& open_queue(CpuDevice& device);

  std::vector<CpuDevice*> devices_;
  const bool simulated_;
  std::vector<CpuQueue*> lanes_;  ///< null until they are used
  std::vector<CpuQueue*> helpers_;
};

}  // namespace weir::cpu
