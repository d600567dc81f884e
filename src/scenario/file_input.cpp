// The text of a scenario file, plain or unpacked.
#include "scenario/file_input.hpp"

#include <cerrno>
#include <new>
#include <system_error>
#include <utility>

#include <fcntl.h>
#include <unistd.h>
#include <zlib.h>

#include "scenario/value.hpp"

namespace weir::scenario {

namespace {

constexpr std::size_t piece = std::size_t{1} << 16;

}  // namespace

struct FileInput::Gzip {
  z_stream stream{};
  std::unique_ptr<char[]> out = std::make_unique<char[]>(piece);
  bool inside = true;  ///< of a member, whose end must come

  Gzip() {
    constexpr int with_gzip_head = 15 + 16;
    if (inflateInit2(&stream, with_gzip_head) != Z_OK) throw std::bad_alloc();
  }
  ~Gzip() { inflateEnd(&stream); }
};

FileInput::FileInput(const std::filesystem::path& path)
    : file_(open(path.c_str(), O_RDONLY | O_CLOEXEC)), buffer_(std::make_unique<char[]>(piece)) {
  if (file_ < 0) throw Unreadable{std::generic_category().message(errno)};
}

FileInput::FileInput(std::string_view text) : memory_(text) {}

FileInput::~FileInput() {
  if (file_ >= 0) close(file_);
}

std::string_view FileInput::read() {
  if (file_ < 0) {
    const std::string_view text = memory_.substr(0, piece);
    memory_.remove_prefix(text.size());
    return text;
  }
  ssize_t got = 0;
  do {
    got = ::read(file_, buffer_.get(), piece);
  } while (got < 0 && errno == EINTR);
  if (got < 0) throw Unreadable{std::generic_category().message(errno)};
  return {buffer_.get(), static_cast<std::size_t>(got)};
}

std::string_view FileInput::next() {
  if (!std::exchange(begun_, true)) {
    const std::string_view first = read();
    const bool packed = first.size() >= 2 && first[0] == '\x1f' && first[1] == '\x8b';
    if (!packed) return first;
    gzip_ = std::make_unique<Gzip>();
    gzip_->stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(first.data()));
    gzip_->stream.avail_in = static_cast<uInt>(first.size());
  }
  if (!gzip_) return read();
  z_stream& stream = gzip_->stream;
  stream.next_out = reinterpret_cast<Bytef*>(gzip_->out.get());
  stream.avail_out = piece;
  while (stream.avail_out == piece) {
    if (stream.avail_in == 0) {
      const std::string_view more = read();
      if (more.empty()) {
        if (gzip_->inside) throw Fault{"", "the gzip file ends too early"};
        return {};
      }
      stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(more.data()));
      stream.avail_in = static_cast<uInt>(more.size());
    }
    if (!gzip_->inside) {  // another member follows
      inflateReset(&stream);
      gzip_->inside = true;
    }
    const int answer = inflate(&stream, Z_NO_FLUSH);
    if (answer == Z_STREAM_END) {
      gzip_->inside = false;
    } else if (answer != Z_OK && answer != Z_BUF_ERROR) {
      throw Fault{"", "the gzip file is damaged"};
    }
  }
  return {gzip_->out.get(), piece - stream.avail_out};
}

}  // namespace weir::scenario
