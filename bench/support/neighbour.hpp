// Another process that takes one core while it is let.
#pragma once

#include <sys/types.h>

namespace bench {

/// Forks a child that spins on the last core whenever it is resumed. Make it before the process has threads.
class Neighbour {
 public:
  Neighbour();
  ~Neighbour();
  Neighbour(const Neighbour&) = delete;
  Neighbour& operator=(const Neighbour&) = delete;

  void resume() const;
  void pause() const;

 private:
  pid_t child_;
};

}  // namespace bench
