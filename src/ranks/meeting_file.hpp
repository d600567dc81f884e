// Where a job's rank 0 listens, and the job's secret, for ranks whose launcher passes neither: a file of this user's alone.
#pragma once

#include <optional>
#include <string>

namespace weir::detail {

struct MeetingPlace {
  int port = 0;
  std::string secret;
};

/// Rank 0's: written whole or not at all, with mode 600, and removed when all have come. Throws SocketError.
class MeetingFile {
 public:
  MeetingFile(std::string path, const MeetingPlace& place);
  ~MeetingFile();
  MeetingFile(const MeetingFile&) = delete;
  MeetingFile& operator=(const MeetingFile&) = delete;

  /// The others': nothing while there is none, or none that makes sense. Throws SocketError where others than this user may have written
  /// or read it.
  static std::optional<MeetingPlace> read(const std::string& path);

 private:
  std::string path_;
};

}  // namespace weir::detail
