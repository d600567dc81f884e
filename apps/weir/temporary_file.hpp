// Files that programs which the tool starts write for it.
#pragma once

#include <filesystem>
#include <stdexcept>
#include <string>

#include <stdlib.h>
#include <unistd.h>

#include <fmt/format.h>

namespace tool {

/// A file of a name that nobody else has, gone with the object.
class TemporaryFile {
 public:
  explicit TemporaryFile(const std::string& ending)
      : path_(std::filesystem::temp_directory_path() / ("weir-program-XXXXXX" + ending)) {
    const int file = mkstemps(path_.data(), static_cast<int>(ending.size()));
    if (file < 0) throw std::runtime_error(fmt::format("{}: cannot be made", path_));
    close(file);
  }
  ~TemporaryFile() { unlink(path_.c_str()); }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace tool
