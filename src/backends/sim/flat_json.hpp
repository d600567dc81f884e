// Small files of JSON, as profiles are, member by member: the library itself links no reader of JSON
// (docs/decisions/0017-recordings.md).
#pragma once

#include <functional>
#include <string>
#include <string_view>

namespace weir::sim {

/// A member that has none itself: its path ("device.sms.value", "device.sms.spread.0"), and a number or a text, or an object or
/// a list that is empty.
struct Leaf {
  std::string_view path;
  bool is_number = false;
  bool is_text = false;
  double number = 0;
  std::string_view text;
  bool is_empty = false;
};

/// Calls `take` for each in the order of the file. Throws std::string for what is no JSON object of such members: keys are
/// letters, digits and underscores, no key is there twice in its object, and nothing is deeper than eight levels.
void read_flat_json(std::string_view text, const std::function<void(const Leaf&)>& take);

}  // namespace weir::sim
