// What host threads ask where asking costs nothing.
#pragma once

#include <cstdint>
#include <set>
#include <tuple>
#include <vector>

#include "backends/sim/model/program.hpp"

namespace weir::sim {

class Questions {
 public:
  /// Whether the thread has asked it at this time of its clock already, and gave no work to a device since.
  bool again(const model::Call& question, std::uint32_t thread, double time) {
    if (threads_.size() <= thread) threads_.resize(thread + 1);
    Asked& asked = threads_[thread];
    if (asked.time != time) asked = {time, {}};
    return !asked.questions.emplace(question.action, question.stream, question.target).second;
  }
  /// The thread gives work.
  void forget(std::uint32_t thread) {
    if (thread < threads_.size()) threads_[thread].questions.clear();
  }

 private:
  struct Asked {
    double time = 0;
    std::set<std::tuple<model::Action, std::uint32_t, std::uint32_t>> questions = {};
  };
  std::vector<Asked> threads_;
};

}  // namespace weir::sim
