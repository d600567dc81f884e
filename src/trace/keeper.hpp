// Keeps a timeline's file up to date while it is recorded, so that a program that is killed leaves one that opens.
#pragma once

#include <condition_variable>
#include <filesystem>
#include <functional>
#include <thread>

#include <weir/trace.hpp>

#include "thread_safety.hpp"

namespace weir::trace {

/// Writes it first after 5 ms, then each time after twice as long, up to a second, or twenty times what writing took if that
/// is longer: on a thread of its own, which takes a twentieth of one core at most.
class Keeper {
 public:
  Keeper(std::filesystem::path file, std::function<Timeline()> make);
  /// Ends as stop() does.
  ~Keeper();
  Keeper(const Keeper&) = delete;
  Keeper& operator=(const Keeper&) = delete;

  /// From then on nothing is written.
  void stop();

 private:
  void run();
  std::filesystem::path file_;
  std::function<Timeline()> make_;
  detail::Mutex mutex_;
  std::condition_variable_any wakes_;
  bool ends_ WEIR_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace weir::trace
