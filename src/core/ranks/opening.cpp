// Offers to the first rank, a key to all; each rank's answer to the first, and what becomes of it to all.
#include "core/ranks/opening.hpp"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace weir::detail {

namespace {

constexpr std::size_t most_bytes = 1024;
constexpr std::chrono::microseconds pause{100};

/// Short texts between this rank and another one, one at a time. Nothing else uses the tag before the first call.
class Talk {
 public:
  Talk(SharedLink& link, const RankEngine::Place& place, const std::function<bool()>& go_on)
      : link_(link), place_(place), go_on_(go_on) {}

  /// False: it was given up.
  bool send(int rank, const std::string& text) {
    auto one = std::make_unique<Message>();
    std::copy_n(reinterpret_cast<const std::byte*>(text.data()), std::min(text.size(), most_bytes), one->room);
    return over(std::move(one), [&](Message& message) {
      link_.link->send(message.transfer, peer(rank), tag(), message.room, std::min(text.size(), most_bytes));
    });
  }
  bool receive(int rank, std::string& text) {
    auto one = std::make_unique<Message>();
    Message& message = *one;
    const bool came = over(
        std::move(one),
        [&](Message& empty) { link_.link->receive(empty.transfer, peer(rank), tag(), empty.room, most_bytes); },
        [&] { text.assign(reinterpret_cast<const char*>(message.room), message.transfer.bytes); });
    return came;
  }
  bool go_on() const { return go_on_(); }

 private:
  struct Message {
    Transfer transfer;
    std::byte room[most_bytes] = {};
  };
  int peer(int rank) const { return place_.members[static_cast<std::size_t>(rank)]; }
  std::uint32_t tag() const { return 4 * place_.context; }

  template <class Begin, class Then>
  bool over(std::unique_ptr<Message> message, Begin&& begin, Then&& then) {
    {
      const LockGuard guard(link_.mutex);
      begin(*message);
    }
    for (;;) {
      {
        const LockGuard guard(link_.mutex);
        if (message->transfer.state == Transfer::State::under_way) link_.link->test(message->transfer);
        if (message->transfer.state == Transfer::State::done) {
          then();
          return true;
        }
        if (message->transfer.state != Transfer::State::under_way) return false;
        if (!go_on_()) {
          // What cannot be given up has its memory for ever.
          if (!link_.link->cancel(message->transfer)) static_cast<void>(message.release());
          return false;
        }
      }
      std::this_thread::sleep_for(pause);
    }
  }
  template <class Begin>
  bool over(std::unique_ptr<Message> message, Begin&& begin) {
    return over(std::move(message), std::forward<Begin>(begin), [] {});
  }

  SharedLink& link_;
  const RankEngine::Place& place_;
  const std::function<bool()>& go_on_;
};

/// What the first rank says of what all say, to all. False: it was given up.
template <class Decide>
bool agree(Talk& talk, int rank, int size, std::string own, std::string& result, Decide&& decide) {
  if (rank != 0) return talk.send(0, own) && talk.receive(0, result);
  std::vector<std::string> all{std::move(own)};
  for (int r = 1; r < size; ++r) {
    if (!talk.receive(r, all.emplace_back())) return false;
  }
  result = decide(all);
  for (int r = 1; r < size; ++r) {
    if (!talk.send(r, result)) return false;
  }
  return true;
}

}  // namespace

Opening open_with_all(RankMover& mover, SharedLink& link, const RankEngine::Place& place,
                      const std::function<bool()>& go_on) {
  Talk talk(link, place, go_on);
  const auto size = static_cast<int>(place.members.size());
  std::string key;
  const bool has_key = agree(talk, place.rank, size, mover.offer(place.rank, size), key, [&](const auto& offers) {
    try {
      return mover.make_key(offers);
    } catch (const Error&) {
      return std::string();
    }
  });
  if (!has_key) return Opening::given_up;
  if (key.empty()) return Opening::closed;
  const auto opened = std::make_shared<RankMove>();
  mover.open(key, place.rank, size, opened);
  while (!opened->over() && go_on()) std::this_thread::sleep_for(pause);
  const bool is_open = opened->state.load(std::memory_order_acquire) == RankMove::State::done;
  constexpr const char* good = "open";
  std::string all;
  const bool agreed = agree(talk, place.rank, size, is_open ? good : "", all, [&](const auto& answers) {
    return std::all_of(answers.begin(), answers.end(), [&](const auto& one) { return one == good; }) ? std::string(good)
                                                                                                     : std::string();
  });
  if (agreed && all == good) return Opening::open;
  mover.abandon();
  return agreed ? Opening::closed : Opening::given_up;
}

}  // namespace weir::detail
