// Connections that have yet to say who they are.
#include "ranks/door.hpp"

#include <algorithm>
#include <chrono>
#include <utility>
#include <vector>

#include <poll.h>

namespace weir::detail {

namespace {

constexpr std::size_t longest_hello = 1024;
constexpr std::size_t most_strangers = 256;
constexpr std::chrono::seconds patience_with_strangers{5};

}  // namespace

int milliseconds_until(RankClock::time_point when) {
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(when - RankClock::now()).count();
  return static_cast<int>(std::clamp<std::int64_t>(left, 0, 1000));
}

std::optional<Door::Guest> Door::next(RankClock::time_point until) {
  for (;;) {
    if (std::optional<Guest> guest = look()) return guest;
    if (RankClock::now() >= until) return std::nullopt;
    wait(until);
    accept();
  }
}

void Door::wait(RankClock::time_point until) const {
  std::vector<pollfd> files = {{listening_.get(), POLLIN, 0}};
  for (const Stranger& one : strangers_) {
    files.push_back({one.connection.socket().get(), POLLIN, 0});
    until = std::min(until, one.until);
  }
  poll(files.data(), files.size(), milliseconds_until(until));
}

void Door::accept() {
  // Not more than are looked at: what comes without an end would keep those who are here waiting.
  for (std::size_t i = 0; i < most_strangers; ++i) {
    Socket one = accept_from(listening_);
    if (!one.open()) return;
    if (strangers_.size() >= most_strangers) {
      strangers_.pop_front();
      ++refused_;
    }
    strangers_.push_back({Connection(std::move(one), longest_hello), RankClock::now() + patience_with_strangers});
  }
}

std::optional<Door::Guest> Door::look() {
  for (auto at = strangers_.begin(); at != strangers_.end();) {
    Connection& connection = at->connection;
    const bool open = connection.move();
    std::optional<ControlMessage> hello = connection.reader().next();
    if (!hello && open && !connection.reader().broken() && RankClock::now() < at->until) {
      ++at;
      continue;
    }
    const bool known = hello && open && hello->type == ControlMessage::Type::hello && hello->has(1, 1) &&
                       same_secret(hello->texts[0], secret_);
    if (known) {
      Guest guest{std::move(connection), std::move(*hello)};
      strangers_.erase(at);
      return guest;
    }
    ++refused_;
    at = strangers_.erase(at);
  }
  return std::nullopt;
}

}  // namespace weir::detail
