// The text of a scenario file, plain or unpacked, from a file or from memory; never more than a piece of it at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>

namespace weir::scenario {

/// A file that cannot be read.
struct Unreadable {
  std::string message;
};

class FileInput {
 public:
  /// Throws Unreadable.
  explicit FileInput(const std::filesystem::path& path);
  explicit FileInput(std::string_view text);
  ~FileInput();
  FileInput(const FileInput&) = delete;
  FileInput& operator=(const FileInput&) = delete;

  /// The next piece; empty at the end. Throws Fault for damaged gzip, Unreadable.
  std::string_view next();

 private:
  struct Gzip;
  std::string_view read();

  std::string_view memory_;
  int file_ = -1;
  std::unique_ptr<char[]> buffer_;
  std::unique_ptr<Gzip> gzip_;
  bool begun_ = false;
};

}  // namespace weir::scenario
