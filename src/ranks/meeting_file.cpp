#include "ranks/meeting_file.hpp"

#include <array>
#include <cerrno>
#include <charconv>
#include <string_view>
#include <system_error>
#include <utility>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ranks/sockets.hpp"

namespace weir::detail {

namespace {

constexpr mode_t owner_alone = S_IRUSR | S_IWUSR;

[[noreturn]] void refuse(const std::string& path, const std::string& why) {
  throw SocketError{"the job's file " + path + " " + why};
}
std::string reason() { return std::generic_category().message(errno); }

}  // namespace

MeetingFile::MeetingFile(std::string path, const MeetingPlace& place) : path_(std::move(path)) {
  const std::string own = path_ + "." + std::to_string(getpid());
  unlink(own.c_str());
  const Socket file(open(own.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, owner_alone));
  if (!file.open()) refuse(own, "cannot be made: " + reason());
  const std::string text = std::to_string(place.port) + " " + place.secret + "\n";
  const bool written = write(file.get(), text.data(), text.size()) == static_cast<ssize_t>(text.size());
  if (written && rename(own.c_str(), path_.c_str()) == 0) return;
  const std::string why = reason();
  unlink(own.c_str());
  refuse(path_, "cannot be written: " + why);
}

MeetingFile::~MeetingFile() { unlink(path_.c_str()); }

std::optional<MeetingPlace> MeetingFile::read(const std::string& path) {
  const Socket file(open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK));
  if (!file.open()) {
    if (errno == ENOENT) return std::nullopt;
    refuse(path, "cannot be read: " + reason());
  }
  struct stat about {};
  if (fstat(file.get(), &about) != 0) refuse(path, "cannot be read: " + reason());
  if (!S_ISREG(about.st_mode) || about.st_uid != geteuid()) refuse(path, "is not a file of this user's");
  if ((about.st_mode & (S_IRWXG | S_IRWXO)) != 0) refuse(path, "is open to others: its mode is to be 600");
  std::array<char, 256> room{};
  const ssize_t got = ::read(file.get(), room.data(), room.size());
  const std::string_view text(room.data(), got > 0 ? static_cast<std::size_t>(got) : 0);
  const std::size_t space = text.find(' ');
  if (space == std::string_view::npos || !text.ends_with('\n')) return std::nullopt;
  MeetingPlace place;
  const auto [end, error] = std::from_chars(text.data(), text.data() + space, place.port);
  if (error != std::errc() || end != text.data() + space || place.port < 1 || place.port > 65535) return std::nullopt;
  place.secret = text.substr(space + 1, text.size() - space - 2);
  if (place.secret.empty()) return std::nullopt;
  return place;
}

}  // namespace weir::detail
