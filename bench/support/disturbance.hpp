// How much of the machine others took while something was measured: other processes, and the host of a virtual machine.
#pragma once

namespace bench {

class Disturbance {
 public:
  Disturbance();
  /// In cores, since the constructor.
  double cores() const;

 private:
  double others_ = 0;
  double wall_ = 0;
};

}  // namespace bench
