// Ends the process where a test hangs, and says in what.
#pragma once

#include <functional>
#include <string>

namespace weir::stress {

/// While it lives, something is at work; if that lasts too long, prints text() and aborts.
class Watchdog {
 public:
  explicit Watchdog(std::function<std::string()> text);
  ~Watchdog();
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;
};

}  // namespace weir::stress
