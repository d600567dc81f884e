// Memory of commands whose times are taken, for batch after batch.
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

#include "backends/cuda/streams/command_times.hpp"
#include "thread_safety.hpp"

namespace weir::cuda {

/// Room for commands: taken as they come, and kept for other batches.
class Rooms {
 public:
  static constexpr std::size_t size = 64;
  using Room = std::array<TimedCommand, size>;

  static Rooms& instance() {
    static auto& rooms = *new Rooms;
    return rooms;
  }
  std::unique_ptr<Room> take() {
    {
      const detail::LockGuard guard(mutex_);
      if (!free_.empty()) {
        std::unique_ptr<Room> room = std::move(free_.back());
        free_.pop_back();
        return room;
      }
    }
    return std::make_unique<Room>();
  }
  /// Whose commands are as if they were new.
  void give(std::unique_ptr<Room> room) noexcept {
    const detail::LockGuard guard(mutex_);
    if (free_.size() < kept) free_.push_back(std::move(room));
  }

 private:
  static constexpr std::size_t kept = 64;

  Rooms() { free_.reserve(kept); }

  detail::Mutex mutex_;
  std::vector<std::unique_ptr<Room>> free_ WEIR_GUARDED_BY(mutex_);
};

}  // namespace weir::cuda
