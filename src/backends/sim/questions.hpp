// What host threads ask where asking costs nothing.
#pragma once

#include <cstdint>
#include <map>
#include <tuple>
#include <vector>

#include "backends/sim/model/program.hpp"

namespace weir::sim {

/// Loops that ask until they hear a yes must end, so time goes on for them; but not at once: loops that give up after some
/// questions would else be told a yes that depends on how late the real work is.
class Questions {
 public:
  /// Whether the thread has asked it so often at this time of its clock, and gave no work to a device since, that it would ask for
  /// ever.
  bool again(const model::Call& question, std::uint32_t thread, double time) {
    if (threads_.size() <= thread) threads_.resize(thread + 1);
    Asked& asked = threads_[thread];
    if (asked.time != time) asked = {time};
    return asked.times[{question.action, question.stream, question.target}]++ >= (asked.went_on ? 1 : patience);
  }
  /// Its time is that of what happened next: from there on it has to ask each question but twice.
  void went_on(std::uint32_t thread, double time) { threads_[thread] = {time, true}; }
  /// The thread gives work.
  void forget(std::uint32_t thread) {
    if (thread < threads_.size()) threads_[thread] = {};
  }

 private:
  static constexpr int patience = 1000;

  struct Asked {
    double time = 0;
    bool went_on = false;
    std::map<std::tuple<model::Action, std::uint32_t, std::uint32_t>, int> times = {};
  };
  std::vector<Asked> threads_;
};

}  // namespace weir::sim
