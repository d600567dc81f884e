// Where the ranks of a job come in: anybody may connect, and nobody holds up another.
#pragma once

#include <cstddef>
#include <list>
#include <optional>
#include <string>

#include "ranks/message.hpp"
#include "ranks/sockets.hpp"

namespace weir::detail {

/// Takes connections until each has said who it is. One that does not, within some seconds, or without the job's secret, is
/// closed and counted; so is the oldest where there are too many. Who is in earnest and was closed comes again.
class Door {
 public:
  struct Guest {
    Connection connection;
    ControlMessage hello;  ///< its first text is the secret
  };
  Door(Socket listening, std::string secret) : listening_(std::move(listening)), secret_(std::move(secret)) {}

  /// One that knows the secret; nothing if none came by `until`.
  std::optional<Guest> next(RankClock::time_point until);
  std::size_t refused() const { return refused_; }

 private:
  struct Stranger {
    Connection connection;
    RankClock::time_point until;
  };
  void wait(RankClock::time_point until) const;
  void accept();
  /// The first guest among the strangers.
  std::optional<Guest> look();

  Socket listening_;
  std::string secret_;
  std::list<Stranger> strangers_;
  std::size_t refused_ = 0;
};

/// Of a time to come, for poll(): a second at most.
int milliseconds_until(RankClock::time_point when);

}  // namespace weir::detail
