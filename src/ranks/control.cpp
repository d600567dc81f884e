// The thread that holds a process's connections to the others: to rank 0, or, there, to all.
#include "ranks/control.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <charconv>
#include <condition_variable>
#include <cstdlib>
#include <map>
#include <mutex>
#include <thread>
#include <utility>

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "ranks/hub.hpp"
#include "ranks/join.hpp"
#include "thread_safety.hpp"

namespace weir::detail {

namespace {

using Type = ControlMessage::Type;

constexpr std::chrono::milliseconds heartbeat{500};
constexpr std::chrono::milliseconds longest_goodbye{500};
constexpr int patience_with_the_living = 6;
constexpr std::size_t most_last_calls = 32;

}  // namespace

std::chrono::milliseconds rank_silence() {
  const char* value = std::getenv("WEIR_RANK_SILENCE");
  if (value == nullptr) return std::chrono::seconds(10);
  double seconds = 0;
  const std::string_view text = value;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), seconds);
  if (error != std::errc() || end != text.data() + text.size() || !(seconds >= 1) || seconds > 1e6) {
    throw SocketError{"WEIR_RANK_SILENCE is \"" + std::string(text) + "\": it is a number of seconds, 1 or more"};
  }
  return std::chrono::milliseconds(static_cast<std::int64_t>(1000 * seconds));
}

class Control::Shared : public std::enable_shared_from_this<Control::Shared> {
 public:
  explicit Shared(Settings settings)
      : rank_(settings.rank),
        silence_(settings.silence ? *settings.silence : rank_silence()),
        joined_(join_job(settings)),
        wake_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
    if (!wake_.open()) throw SocketError{"there is no file for waking the control's thread"};
    heard_.assign(joined_.connections.size(), RankClock::now());
    if (rank_ != 0) return;
    std::vector<std::string> hosts;
    for (const Peer& peer : joined_.peers) hosts.push_back(peer.host);
    hub_.emplace(std::move(hosts), [this](int rank, const ControlMessage& message) {
      if (rank == 0) {
        here_.push_back(message);
      } else {
        joined_.connections[static_cast<std::size_t>(rank)].queue(message);
      }
    });
  }

  const Joined& joined() const { return joined_; }
  bool decides() const { return decides_.load(std::memory_order_acquire); }

  void attach(std::uint64_t number, std::weak_ptr<RankListener> listener) {
    const LockGuard guard(mutex_);
    listeners_[number] = std::move(listener);
  }
  void start() {
    std::thread([self = shared_from_this()] { self->run(); }).detach();
    running_.store(true);
  }
  void say(ControlMessage message) {
    {
      const LockGuard guard(mutex_);
      said_.push_back(std::move(message));
      ++said_count_;
    }
    wake();
  }
  void flush() {
    if (!running_.load() || std::this_thread::get_id() == thread_.load()) return;
    UniqueLock lock(mutex_);
    const std::uint64_t count = said_count_;
    const auto until = RankClock::now() + longest_goodbye;
    while (out_count_ < count && !goodbye_said_ && ended_.wait_until(lock, until) != std::cv_status::timeout) {
    }
  }
  void end() {
    if (!running_.load()) return;
    say({Type::bye, {static_cast<std::uint64_t>(rank_)}});
    if (std::this_thread::get_id() == thread_.load()) return;
    UniqueLock lock(mutex_);
    const auto until = RankClock::now() + longest_goodbye;
    while (!goodbye_said_ && ended_.wait_until(lock, until) != std::cv_status::timeout) {
    }
  }

 private:
  void wake() const {
    const std::uint64_t one = 1;
    [[maybe_unused]] const ssize_t written = write(wake_.get(), &one, sizeof one);
  }

  void run() {
    thread_.store(std::this_thread::get_id());
    auto beat = RankClock::now();
    while (!over()) {
      wait();
      try {
        take_said();
        for (std::size_t i = 0; i < joined_.connections.size(); ++i) {
          if (joined_.connections[i].open()) serve(i);
        }
        const auto now = RankClock::now();
        if (now >= beat) {
          beat = now + heartbeat;
          const ControlMessage alive = hub_ ? ControlMessage{Type::alive} : last_calls();
          for (Connection& one : joined_.connections) {
            if (one.open()) one.queue(alive);
          }
        }
        look_for_silence(now);
        if (hub_) hub_->look(now);
        hear_here();
        write_out();
      } catch (...) {
        // There is no memory for what came: the next round sees who is gone.
      }
    }
    const LockGuard guard(mutex_);
    goodbye_said_ = true;
    ended_.notify_all();
  }

  /// The goodbye is out; rank 0 stays for the others.
  bool over() {
    if (!saying_goodbye_) return false;
    bool open = false, to_write = false;
    for (const Connection& one : joined_.connections) {
      open = open || one.open();
      to_write = to_write || (one.open() && one.has_to_write());
    }
    if (!to_write) {
      const LockGuard guard(mutex_);
      goodbye_said_ = true;
      ended_.notify_all();
    }
    return !open || (!hub_ && !to_write);
  }

  void wait() const {
    std::vector<pollfd> files = {{wake_.get(), POLLIN, 0}};
    for (const Connection& one : joined_.connections) {
      const auto events = static_cast<short>(POLLIN | (one.has_to_write() ? POLLOUT : 0));
      if (one.open()) files.push_back({one.socket().get(), events, 0});
    }
    const std::chrono::milliseconds longest = hub_ && hub_->waits() ? std::chrono::milliseconds(20) : heartbeat / 2;
    poll(files.data(), files.size(), static_cast<int>(longest.count()));
    std::uint64_t count = 0;
    [[maybe_unused]] const ssize_t got = read(wake_.get(), &count, sizeof count);
  }

  void take_said() {
    std::vector<ControlMessage> said;
    {
      const LockGuard guard(mutex_);
      said.swap(said_);
      taken_count_ = said_count_;
    }
    for (const ControlMessage& message : said) {
      const bool bye = message.type == Type::bye;
      saying_goodbye_ = saying_goodbye_ || bye;
      if (hub_) {
        hub_->take(rank_, message);
        if (!bye) continue;
        for (Connection& one : joined_.connections) {
          if (one.open()) one.queue(message);
        }
      } else if (joined_.connections[0].open()) {
        joined_.connections[0].queue(message);
      }
    }
  }

  void serve(std::size_t at) {
    Connection& connection = joined_.connections[at];
    const bool open = connection.move();
    while (std::optional<ControlMessage> message = connection.reader().next()) {
      heard_[at] = RankClock::now();
      if (hub_ && !hub_->take(static_cast<int>(at), *message)) lose(at, "it sent what makes no sense");
      if (!hub_) hear(*message);
      if (!connection.open()) return;
    }
    if (connection.reader().broken()) {
      lose(at, "it sent what is no message");
    } else if (!open) {
      lose(at, "its connection was closed: the process ended, or was killed");
    }
  }

  void lose(std::size_t at, const std::string& why) {
    joined_.connections[at].close();
    if (hub_) {
      hub_->died(static_cast<int>(at), why);
      return;
    }
    decides_.store(false, std::memory_order_release);
    // Also behind its goodbye: who has asked it something since waits for an answer.
    for_each_listener([&](RankListener& one) { one.dead(0, why); });
  }

  void look_for_silence(RankClock::time_point now) {
    if (now - last_look_ > silence_ / 2) heard_.assign(heard_.size(), now);  // it is this process that was stopped
    last_look_ = now;
    for (std::size_t i = 0; i < joined_.connections.size(); ++i) {
      if (!joined_.connections[i].open() || now - heard_[i] < silence_) continue;
      // On a busy machine a process may wait so long for a processor, or for its memory.
      if (now - heard_[i] < patience_with_the_living * silence_ && may_run(joined_.peers[i].process)) continue;
      lose(i, "nothing was heard of it for " + std::to_string(silence_.count() / 1000) +
                  " s: it is stopped, or its host is");
    }
  }

  void write_out() {
    for (std::size_t i = 0; i < joined_.connections.size(); ++i) {
      Connection& one = joined_.connections[i];
      if (one.open() && one.has_to_write() && !one.move()) serve(i);
    }
    if (std::any_of(joined_.connections.begin(), joined_.connections.end(),
                    [](const Connection& one) { return one.open() && one.has_to_write(); })) {
      return;
    }
    const LockGuard guard(mutex_);
    if (std::exchange(out_count_, taken_count_) != taken_count_) ended_.notify_all();
  }

  void hear_here() {
    while (!here_.empty()) {
      std::vector<ControlMessage> here;
      here.swap(here_);
      for (const ControlMessage& message : here) hear(message);
    }
  }

  std::shared_ptr<RankListener> listener_of(std::uint64_t number) {
    const LockGuard guard(mutex_);
    const auto found = listeners_.find(number);
    return found == listeners_.end() ? nullptr : found->second.lock();
  }
  template <class F>
  void for_each_listener(F&& f) {
    std::vector<std::shared_ptr<RankListener>> all;
    {
      const LockGuard guard(mutex_);
      for (const auto& [number, listener] : listeners_) all.push_back(listener.lock());
    }
    for (const auto& one : all) {
      if (one) f(*one);
    }
  }

  /// For the table of a process that can no longer be asked.
  ControlMessage last_calls() {
    ControlMessage alive{Type::alive};
    std::vector<std::pair<std::uint64_t, std::shared_ptr<RankListener>>> some;
    {
      const LockGuard guard(mutex_);
      std::erase_if(listeners_, [](const auto& one) { return one.second.expired(); });
      for (const auto& [number, listener] : listeners_) {
        if (some.size() < most_last_calls) some.emplace_back(number, listener.lock());
      }
    }
    for (const auto& [number, listener] : some) {
      if (!listener) continue;
      alive.numbers.push_back(number);
      alive.texts.push_back(listener->answer(0, 0).last);
    }
    return alive;
  }

  /// What rank 0 says.
  void hear(const ControlMessage& message) {
    const auto& numbers = message.numbers;
    switch (message.type) {
      case Type::question: {
        if (!message.has(4, 0)) return;
        const auto listener = listener_of(numbers[1]);
        if (!listener) return;
        const RankListener::Answer answer = listener->answer(numbers[2], numbers[3]);
        answer_to_hub({Type::answer,
                       {numbers[0], answer.calls, static_cast<std::uint64_t>(answer.state), answer.fingerprint},
                       {answer.call, answer.last}});
        return;
      }
      case Type::verdict: {
        if (!message.has(2, 0)) return;
        std::string what;
        for (const std::string& text : message.texts) what += text;
        std::vector<int> failed;
        for (std::size_t i = 2; i < numbers.size(); ++i) failed.push_back(static_cast<int>(numbers[i]));
        const auto code = static_cast<Errc>(numbers[1]);
        const bool known =
            code == Errc::rank_failed || code == Errc::collective_timeout || code == Errc::collective_mismatch;
        if (const auto listener = listener_of(numbers[0]))
          listener->verdict(known ? code : Errc::rank_failed, failed, what);
        return;
      }
      case Type::left: {
        if (!message.has(3, 0) || numbers.size() % 3 != 0) return;
        std::vector<RankListener::PairCounts> pairs;
        for (std::size_t i = 3; i < numbers.size(); i += 3) {
          pairs.push_back({static_cast<int>(numbers[i]), numbers[i + 1], numbers[i + 2]});
        }
        if (const auto listener = listener_of(numbers[0]))
          listener->left(static_cast<int>(numbers[1]), numbers[2], pairs);
        return;
      }
      case Type::splits: {
        if (!message.has(2, 0) || (numbers.size() - 2) % 3 != 0) return;
        std::vector<RankListener::Choice> choices;
        for (std::size_t i = 2; i < numbers.size(); i += 3) {
          choices.push_back({static_cast<int>(static_cast<std::int64_t>(numbers[i])),
                             static_cast<int>(static_cast<std::int64_t>(numbers[i + 1])), numbers[i + 2]});
        }
        if (const auto listener = listener_of(numbers[0])) listener->split(numbers[1], choices);
        return;
      }
      default: return;
    }
  }
  void answer_to_hub(const ControlMessage& message) {
    if (hub_) {
      hub_->take(rank_, message);
    } else if (joined_.connections[0].open()) {
      joined_.connections[0].queue(message);
    }
  }

  const int rank_;
  const std::chrono::milliseconds silence_;
  Joined joined_;
  Socket wake_;
  std::atomic<bool> decides_{true};
  std::atomic<bool> running_{false};
  std::atomic<std::thread::id> thread_{};

  // The thread's.
  std::optional<Hub> hub_;
  std::vector<ControlMessage> here_;  ///< of the hub, to this rank
  std::vector<RankClock::time_point> heard_;
  RankClock::time_point last_look_ = RankClock::now();
  bool saying_goodbye_ = false;
  std::uint64_t taken_count_ = 0;

  Mutex mutex_;
  std::condition_variable_any ended_;
  std::vector<ControlMessage> said_ WEIR_GUARDED_BY(mutex_);
  std::map<std::uint64_t, std::weak_ptr<RankListener>> listeners_ WEIR_GUARDED_BY(mutex_);
  std::uint64_t said_count_ WEIR_GUARDED_BY(mutex_) = 0;
  std::uint64_t out_count_ WEIR_GUARDED_BY(mutex_) = 0;  ///< of these, what is on its way
  bool goodbye_said_ WEIR_GUARDED_BY(mutex_) = false;
};

Control::Control(Settings settings) : shared_(std::make_shared<Shared>(std::move(settings))) {}
Control::~Control() { shared_->end(); }

const std::vector<Control::Peer>& Control::peers() const { return shared_->joined().peers; }
bool Control::checks() const { return shared_->joined().checks; }
std::uint64_t Control::job() const { return shared_->joined().job; }
std::size_t Control::refused() const { return shared_->joined().refused; }
void Control::attach(std::uint64_t number, std::weak_ptr<RankListener> listener) {
  shared_->attach(number, std::move(listener));
}
void Control::start() { shared_->start(); }
void Control::flush() const { shared_->flush(); }
bool Control::decides() const { return shared_->decides(); }

void Control::report(std::uint64_t communicator, Inquiry reason, std::uint64_t call, int blamed,
                     const std::string& what, std::uint64_t fingerprint) {
  shared_->say({Type::report,
                {communicator, static_cast<std::uint64_t>(reason), call,
                 blamed < 0 ? std::uint64_t{most_ranks} : static_cast<std::uint64_t>(blamed), fingerprint},
                {what}});
}
void Control::leave(std::uint64_t communicator, std::uint64_t calls, const std::vector<RankListener::PairCounts>& pairs,
                    const std::string& last) {
  ControlMessage said{Type::left, {communicator, 0, calls}, {last}};
  for (const RankListener::PairCounts& one : pairs) {
    said.numbers.insert(said.numbers.end(), {static_cast<std::uint64_t>(one.rank), one.sends, one.receives});
  }
  shared_->say(std::move(said));
}
void Control::split(std::uint64_t communicator, std::uint64_t number, int color, int key) {
  shared_->say({Type::split,
                {communicator, number, static_cast<std::uint64_t>(static_cast<std::int64_t>(color)),
                 static_cast<std::uint64_t>(static_cast<std::int64_t>(key))}});
}

}  // namespace weir::detail
