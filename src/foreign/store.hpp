// Activities as they come, bounded: the oldest make room for new ones.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "foreign/activity.hpp"
#include "thread_safety.hpp"

namespace weir::foreign {

/// Thread rule: any threads.
class Store {
 public:
  /// `limit` is in bytes, for activities.
  explicit Store(std::size_t limit);

  void add(const Activity& activity);
  /// The place of a text, each of which is kept once.
  std::uint32_t intern(std::string_view text);
  void add_context(std::uint32_t id, Context context);
  /// What is told of a stream that has a name keeps it.
  void add_stream(StreamKey id, const Stream& stream);
  void name_stream(StreamKey id, std::string_view name);
  void add_lost(std::uint64_t records);
  void add_overhead(const Overhead& more);

  /// Without its moments.
  Collected read() const;
  /// Commands that were added, also those that have made room.
  std::uint64_t commands() const;

 private:
  static constexpr std::size_t piece = 4096;
  const std::size_t most_pieces_;
  mutable detail::Mutex mutex_;
  std::deque<std::vector<Activity>> pieces_ WEIR_GUARDED_BY(mutex_);  ///< the oldest first
  std::unordered_map<std::string, std::uint32_t> places_ WEIR_GUARDED_BY(mutex_);
  Collected rest_ WEIR_GUARDED_BY(mutex_);  ///< all but the activities
  std::uint64_t commands_ WEIR_GUARDED_BY(mutex_) = 0;
};

}  // namespace weir::foreign
