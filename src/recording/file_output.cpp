// Files that are written whole or not at all, plain or gzip.
#include "recording/file_output.hpp"

#include <cerrno>
#include <cstring>
#include <memory>
#include <system_error>
#include <utility>

#include <fcntl.h>
#include <unistd.h>
#include <zlib.h>

#include <weir/error.hpp>
#include <weir/recording.hpp>

namespace weir {

namespace {

/// A pipe or a terminal takes what comes; a file keeps what it has until the new contents are whole.
std::filesystem::path written_first(const std::filesystem::path& path, const std::filesystem::file_status& status) {
  const bool beside = !std::filesystem::exists(status) || std::filesystem::is_regular_file(status);
  return beside ? std::filesystem::path(path.string() + ".part" + std::to_string(getpid())) : path;
}

std::filesystem::file_status status_of(const std::filesystem::path& path) {
  std::error_code ignored;
  return std::filesystem::status(path, ignored);
}

}  // namespace

std::string why_unwritable(const std::filesystem::path& path) {
  const std::filesystem::file_status status = status_of(path);
  if (status.type() == std::filesystem::file_type::fifo) return "";
  const std::filesystem::path tried = written_first(path, status);
  const int file = open(tried.c_str(), O_WRONLY | O_CLOEXEC | (tried != path ? O_CREAT : 0), 0666);
  if (file < 0) return std::generic_category().message(errno);
  close(file);
  if (tried != path) unlink(tried.c_str());
  return "";
}

namespace recorded {

FileOutput::FileOutput(const char* operation, const std::filesystem::path& path, SourceLocation where)
    : operation_(operation), path_(path), written_(written_first(path, status_of(path))), where_(where) {
  if (path.extension() == ".gz") {
    auto stream = std::make_unique<z_stream>();
    constexpr int with_gzip_head = 15 + 16;
    if (deflateInit2(stream.get(), 6, Z_DEFLATED, with_gzip_head, 8, Z_DEFAULT_STRATEGY) != Z_OK) {
      refuse("gzip has no memory", ENOMEM);
    }
    gzip_ = stream.release();
  }
  file_ = open(written_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (file_ < 0) {
    const int code = errno;
    if (gzip_ != nullptr) deflateEnd(gzip_);
    delete std::exchange(gzip_, nullptr);
    refuse("it cannot be written", code);
  }
}

FileOutput::~FileOutput() {
  if (gzip_ != nullptr) deflateEnd(gzip_);
  delete gzip_;
  if (file_ < 0) return;
  close(file_);
  if (written_ != path_) unlink(written_.c_str());
}

void FileOutput::refuse(const char* what, int code) const {
  throw Error(Errc::invalid_value, operation_, path_.string(),
              std::string(what) + ": " + std::generic_category().message(code), where_);
}

void FileOutput::put(const char* data, std::size_t bytes) {
  while (bytes > 0) {
    const ssize_t written = ::write(file_, data, bytes);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) refuse("it cannot be written", written == 0 ? ENOSPC : errno);
    data += written;
    bytes -= static_cast<std::size_t>(written);
  }
}

void FileOutput::deflate_all(std::string_view text, bool last) {
  char out[1 << 14];
  gzip_->next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  gzip_->avail_in = static_cast<uInt>(text.size());
  do {
    gzip_->next_out = reinterpret_cast<Bytef*>(out);
    gzip_->avail_out = sizeof(out);
    deflate(gzip_, last ? Z_FINISH : Z_NO_FLUSH);
    put(out, sizeof(out) - gzip_->avail_out);
  } while (gzip_->avail_out == 0);
}

void FileOutput::write(std::string_view text) {
  constexpr std::size_t block = std::size_t{1} << 16;
  buffer_.insert(buffer_.end(), text.begin(), text.end());
  if (buffer_.size() < block) return;
  const std::string_view all(buffer_.data(), buffer_.size());
  if (gzip_ != nullptr) {
    deflate_all(all, false);
  } else {
    put(all.data(), all.size());
  }
  buffer_.clear();
}

void FileOutput::finish() {
  const std::string_view all(buffer_.data(), buffer_.size());
  if (gzip_ != nullptr) {
    deflate_all(all, true);
  } else {
    put(all.data(), all.size());
  }
  buffer_.clear();
  const int closed = close(std::exchange(file_, -1));
  const int code = errno;
  if (closed != 0 || (written_ != path_ && rename(written_.c_str(), path_.c_str()) != 0)) {
    const int why = closed != 0 ? code : errno;
    if (written_ != path_) unlink(written_.c_str());
    refuse("it cannot be written", why);
  }
}

}  // namespace recorded

}  // namespace weir
