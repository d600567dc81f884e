// The hazard cases of tests/data as scenario files' text, and helpers of tests about such files.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

namespace recording_test {

struct Case {
  std::string id;
  std::string text;  ///< of the scenario
  bool clean;        ///< its verdict
  /// What the library must refuse: the command, and the error's name; and what it may refuse besides.
  std::vector<std::pair<std::string, std::string>> refused;
  std::vector<std::pair<std::string, std::string>> consequences;
};
const std::vector<Case>& cases();

/// Equal for scenarios that mean the same: without members that have their default, in one order.
std::string normal(const std::string& text);

/// A folder that goes with the test.
class Folder {
 public:
  Folder();
  ~Folder();
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  std::string operator/(const std::string& name) const { return (path_ / name).string(); }
  std::size_t files() const;

 private:
  std::filesystem::path path_;
};

std::string contents(const std::string& path);
std::string packed(const std::string& text);

/// A small scenario around these lists: JSON without the brackets.
struct Parts {
  std::string program = "";
  std::string streams = R"({"name": "s", "kind": "blocking"}, {"name": "t", "kind": "non_blocking", "later": true})";
  std::string events = R"({"name": "e"}, {"name": "f", "later": true})";
  std::string buffers = R"({"name": "a", "kind": "device", "bytes": 64}, {"name": "p", "kind": "pinned", "bytes": 64},
         {"name": "n", "kind": "device", "bytes": 64, "start": "later"})";
  std::string more = "";  ///< members of the file
};
std::string scenario(const Parts& parts);

}  // namespace recording_test
