// The sequential interpreter: what a program leaves behind if its commands run one by one.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "program.hpp"

namespace weir::stress {

/// What a run left behind.
struct Outcome {
  std::vector<std::vector<Element>> arrays;          ///< at the end; empty for arrays that ended before
  std::map<std::size_t, std::vector<Element>> read;  ///< by command: what it read back to the host
  std::map<std::size_t, bool> answers;    ///< by command: whether a stream or event was done; expected: must be
  std::map<std::size_t, Element> thrown;  ///< by command: the salt of the failure that it threw
  std::vector<Element> left;              ///< failures thrown by nothing before the end, sorted
  /// Expected: who comes behind work of the default streams that has failed may inherit it, or not, by when it looked.
  std::map<std::size_t, Element> may_throw;
  std::vector<Element> may_be_left;
  std::vector<std::string> complaints;  ///< of the machine itself; none in a right run
};

Outcome interpret(const Program& program);

/// The first difference in words, none if there is none.
std::optional<std::string> difference(const Program& program, const Outcome& expected, const Outcome& actual);

}  // namespace weir::stress
