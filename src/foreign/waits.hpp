// Waits of the host, with the command that each was for.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <weir/trace.hpp>

#include "foreign/names.hpp"

namespace weir::foreign {

/// Adds waits to a timeline whose commands are complete.
class WaitFinder {
 public:
  WaitFinder(trace::Timeline& made, Names& names);

  void add_event(trace::HostWait wait, std::uint32_t record);
  void add_stream(trace::HostWait wait, std::uint32_t stream);
  void add_device(trace::HostWait wait, const std::string& device);
  /// Of the call that made the command, which returned when it was over.
  void add_copy(std::uint32_t command);
  /// If what a device had been asked for before the call ended during the call: all of it.
  void add_allocation(trace::HostWait wait);
  /// In the order of their begins.
  void finish();

 private:
  void add(trace::HostWait& wait, const std::string& what);
  /// The work that ended last by a moment; none.
  std::uint32_t ended_by(std::int64_t moment) const;

  void add_last(std::uint32_t place);

  trace::Timeline& made_;
  Names& names_;
  std::vector<std::pair<std::int64_t, std::uint32_t>> ends_;  ///< of work, sorted
  struct Last {
    std::int64_t called;
    std::uint32_t command;  ///< that ends last of those that were asked for until then
  };
  std::vector<std::vector<Last>> of_device_;
  std::vector<std::vector<std::uint32_t>> of_stream_;  ///< its commands
};

}  // namespace weir::foreign
