// What a thread does between two looks at something that another one is about to change.
#pragma once

#include <chrono>
#include <thread>

namespace weir::detail {

/// Lets others run, `looks` being the number of looks before. One in 64 times it sleeps: threads that yield without end beside
/// threads that compute and sleep in turn keep those of other processes waiting for seconds (decision 0038).
inline void back_off(unsigned looks) {
  constexpr unsigned turn = 64;
  if (looks % turn != turn - 1) {
    std::this_thread::yield();
  } else {
    std::this_thread::sleep_for(std::chrono::microseconds(20));
  }
}

}  // namespace weir::detail
