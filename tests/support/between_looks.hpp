// How a test waits for what other threads do.
#pragma once

#include <chrono>
#include <thread>

namespace weir_test {

/// Lets others run, and sleeps one in 64 times: a test that yields without end can hold up all others (decision 0038).
inline void between_looks(int looks) {
  if (looks % 64 != 63) {
    std::this_thread::yield();
  } else {
    std::this_thread::sleep_for(std::chrono::microseconds(20));
  }
}

}  // namespace weir_test
