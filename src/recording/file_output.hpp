// Files that are written whole or not at all, plain or gzip.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include <weir/source_location.hpp>

struct z_stream_s;

namespace weir::recorded {

class FileOutput {
 public:
  /// Throws Error(invalid_value), as the other calls do, naming `operation`.
  FileOutput(const char* operation, const std::filesystem::path& path, SourceLocation where);
  /// What was not finished leaves nothing behind.
  ~FileOutput();
  FileOutput(const FileOutput&) = delete;
  FileOutput& operator=(const FileOutput&) = delete;

  void write(std::string_view text);
  /// All is written: the file takes its place.
  void finish();

 private:
  void put(const char* data, std::size_t bytes);
  void deflate_all(std::string_view text, bool last);
  [[noreturn]] void refuse(const char* what, int code) const;

  const char* operation_;
  std::filesystem::path path_;
  std::filesystem::path written_;  ///< beside it, until it is whole; the path itself for pipes and the like
  SourceLocation where_;
  int file_ = -1;
  z_stream_s* gzip_ = nullptr;
  std::vector<char> buffer_;
};

}  // namespace weir::recorded
