// Faults among processes at a random moment of a random program: each survivor gets an error that fits, in time; its streams are
// idle then, and its memory is back; by sockets, and by MPI. WEIR_RANKS_FAULTS=200 runs as many of each; WEIR_RANKS_SEED is the
// first one's seed.
#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <ostream>
#include <random>
#include <regex>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include <unistd.h>

#include <gtest/gtest.h>

#include "ranks/programs.hpp"
#include "ranks/scenes.hpp"
#include "ranks/world.hpp"
#include "support/between_looks.hpp"
#include "support/watchdog.hpp"

namespace {

using ranks_test::SharedGate;
using weir::in;
using weir::inout;
using weir::out;
using Clock = std::chrono::steady_clock;

enum class Fault {
  killed,
  stopped,
  ended,
  exits,
  leaves,
  throws,
  aborts,
  stream_fails,
  late,
  other_count,
  other_type,
  other_operation,
  other_root,
  other_kind,
  opposite_order
};
struct Case {
  Fault fault;
  const char* name;
  const char* code;  ///< what survivors see; empty: it depends on who hears first of what
};
void PrintTo(const Case& one, std::ostream* out) { *out << one.name; }
constexpr std::array cases = {Case{Fault::killed, "killed", "rank_failed"},
                              Case{Fault::stopped, "stopped", "rank_failed"},
                              Case{Fault::ended, "ended", "rank_failed"},
                              Case{Fault::exits, "exits", "rank_failed"},
                              Case{Fault::leaves, "leaves", "rank_failed"},
                              Case{Fault::throws, "throws", "rank_failed"},
                              Case{Fault::aborts, "aborts", "rank_failed"},
                              Case{Fault::stream_fails, "stream_fails", "rank_failed"},
                              Case{Fault::late, "late", "collective_timeout"},
                              Case{Fault::other_count, "other_count", "collective_mismatch"},
                              Case{Fault::other_type, "other_type", "collective_mismatch"},
                              Case{Fault::other_operation, "other_operation", "collective_mismatch"},
                              Case{Fault::other_root, "other_root", "collective_mismatch"},
                              Case{Fault::other_kind, "other_kind", "collective_mismatch"},
                              Case{Fault::opposite_order, "opposite_order", ""}};

bool is_mismatch(Fault fault) { return fault >= Fault::other_count && fault <= Fault::other_kind; }

enum class Kind {
  all_reduce,
  reduce,
  reduce_scatter,
  broadcast,
  all_gather,
  gather,
  scatter,
  all_to_all,
  exchange,
  barrier
};
constexpr int kinds = 10;
bool folds(Kind kind) { return kind <= Kind::reduce_scatter; }
bool has_root(Kind kind) {
  return kind == Kind::reduce || kind == Kind::broadcast || kind == Kind::gather || kind == Kind::scatter;
}

struct Step {
  Kind kind;
  std::size_t count;
  int root;
  bool floats = false;
  bool minimum = false;
};

/// What all ranks of a run do, each of which makes the same of the seed.
struct Plan {
  enum class Moment { before, amid, behind };

  Plan(Fault what, unsigned seed, int ranks) : fault(what), random(seed * 31 + static_cast<unsigned>(what)) {
    constexpr std::array<std::size_t, 6> counts = {1, 8, 600, 5'000, 20'000, 100'000};
    bad = pick(ranks);
    const int steps = 1 + pick(12);
    for (int i = 0; i < steps; ++i) {
      right.push_back({static_cast<Kind>(pick(kinds)), counts[static_cast<std::size_t>(pick(6))], pick(ranks)});
    }
    at = static_cast<std::size_t>(pick(steps));
    moment = static_cast<Moment>(pick(3));
    if (is_mismatch(fault)) differ(ranks);
  }

  int pick(int limit) { return static_cast<int>(random() % static_cast<unsigned>(limit)); }

  /// The bad rank's call is another one, of those that can differ so.
  void differ(int ranks) {
    Step& step = right[at];
    if (fault == Fault::other_operation && !folds(step.kind)) step.kind = static_cast<Kind>(pick(3));
    if (fault == Fault::other_root && !has_root(step.kind)) step.kind = Kind::broadcast;
    // A rank that receives nothing here hears of it at the next call, and messages between two others are right: all take part.
    if (step.kind >= Kind::exchange) step.kind = Kind::all_gather;
    if (fault == Fault::other_count) step.count = std::max<std::size_t>(step.count, 2);
    wrong = step;
    switch (fault) {
      case Fault::other_count: --wrong.count; break;
      case Fault::other_type: wrong.floats = true; break;
      case Fault::other_operation: wrong.minimum = true; break;
      case Fault::other_root: wrong.root = (step.root + 1 + pick(ranks - 1)) % ranks; break;
      default: wrong.kind = static_cast<Kind>((static_cast<int>(step.kind) + 1 + pick(7)) % 8);
    }
  }

  Fault fault;
  std::mt19937 random;
  std::vector<Step> right;
  std::size_t at = 0;
  int bad = 0;
  Moment moment = Moment::before;
  Step wrong{};
};

/// A rank's arrays, for any call.
template <class T>
struct Arrays {
  Arrays(const weir::Stream& s, int ranks)
      : size(static_cast<std::size_t>(ranks)),
        x(weir::full<T>(s, 100'000 * size, T{1})),
        y(weir::full<T>(s, 100'000 * size, T{1})) {}

  template <class Op>
  void call(const weir::Stream& s, const weir::Communicator& comm, const Step& step, Op op) const {
    const auto one = x.slice(0, step.count), other = y.slice(0, step.count);
    const auto all = x.slice(0, step.count * size), all_others = y.slice(0, step.count * size);
    switch (step.kind) {
      case Kind::all_reduce: return weir::all_reduce(s, comm, inout(one), op);
      case Kind::reduce: return weir::reduce(s, comm, in(one), out(other), op, step.root);
      case Kind::reduce_scatter: return weir::reduce_scatter(s, comm, in(all), out(other), op);
      case Kind::broadcast: return weir::broadcast(s, comm, inout(one), step.root);
      case Kind::all_gather: return weir::all_gather(s, comm, in(one), out(all_others));
      case Kind::gather: return weir::gather(s, comm, in(one), out(all_others), step.root);
      case Kind::scatter: return weir::scatter(s, comm, in(all), out(other), step.root);
      case Kind::all_to_all: return weir::all_to_all(s, comm, in(all), out(all_others));
      case Kind::exchange: {
        weir::CollectiveGroup group;
        weir::send(s, comm, in(one), (comm.rank() + 1) % comm.size());
        weir::receive(s, comm, out(other), (comm.rank() + comm.size() - 1) % comm.size());
        return group.end();
      }
      case Kind::barrier: return weir::barrier(s, comm);
    }
  }

  std::size_t size;
  weir::Array<T> x, y;
};

/// One rank of a run.
class Player {
 public:
  Player(const Case& one, unsigned seed)
      : fault_(one.fault),
        all_(ranks_test::make({.name = "all"})),
        comm_(ranks_test::make({.name = "grads", .timeout = timeout()})),
        plan_(one.fault, seed, comm_->size()),
        ranks_(comm_->size()),
        rank_(comm_->rank()),
        bad_(plan_.bad == rank_),
        random_(seed * 7 + static_cast<unsigned>(rank_)) {}

  void play() {
    const weir::Device device = ranks_test::device();
    if (fault_ == Fault::opposite_order) second_ = ranks_test::make({.name = "second", .timeout = timeout()});
    {
      const weir::Stream s(device);
      weir::barrier(s, *comm_);
      s.synchronize();
      meet("begun");
      const std::size_t before = weir::default_pool(device).statistics().used;
      const bool waits_often = random_() % 2 == 0;
      const bool ended = run(s, waits_often);
      if (!ended) told_idle_ = s.done();
      SharedGate("seen-" + std::to_string(rank_)).open();
      // What MPI may still write to is kept for ever (docs/collectives.md), so nothing is to be waited for.
      const bool by_mpi = std::string(all_.transport()).starts_with("MPI");
      const auto until = Clock::now() + (by_mpi ? Clock::duration(0) : Clock::duration(weir_test::liveness_limit));
      for (int looks = 0; weir::default_pool(device).statistics().used > before && Clock::now() < until; ++looks)
        weir_test::between_looks(looks);
      std::printf("rank %d has %s memory of its calls, and its stream is %s\n", rank_,
                  weir::default_pool(device).statistics().used > before ? "still" : "no", told_idle_ ? "idle" : "busy");
    }
    std::fflush(stdout);
    await_others();
  }

 private:
  std::chrono::nanoseconds timeout() const {
    return fault_ == Fault::late || fault_ == Fault::opposite_order ? std::chrono::seconds(weir_test::patience)
                                                                    : std::chrono::seconds(60);
  }
  void meet(const std::string& where) const {
    SharedGate(where + std::to_string(rank_)).open();
    for (int r = 0; r < ranks_; ++r) SharedGate(where + std::to_string(r)).wait();
  }
  /// A process that ends is another fault: who is to blame for this one stays until the others have seen it.
  void await_others() const {
    const bool lingers = bad_ || plan_.right.size() % 2 == 0 || fault_ == Fault::stopped;
    for (int r = 0; lingers && r < ranks_; ++r) {
      if (r != plan_.bad) SharedGate("seen-" + std::to_string(r)).wait();
    }
    if (fault_ != Fault::stopped) return;
    std::ifstream file(SharedGate("stopped").path());
    pid_t stopped = 0;
    if (file >> stopped && stopped > 1) kill(stopped, SIGKILL);
  }

  void tell(const weir::Error& error) const {
    if (bad_ && fault_ == Fault::stream_fails) return std::printf("its own: %s\n", error.what()), void();
    std::error_code none;
    const auto began = std::filesystem::last_write_time(SharedGate("fault").path(), none);
    const auto took = none ? std::chrono::milliseconds(0)
                           : std::chrono::duration_cast<std::chrono::milliseconds>(
                                 std::filesystem::file_time_type::clock::now() - began);
    std::printf("rank %d saw %s after %d ms: %s\n", rank_, ranks_test::name_of(error.errc()),
                static_cast<int>(took.count()), error.what());
  }
  /// True: nothing is to be seen by this rank.
  bool run(const weir::Stream& s, bool waits_often) {
    const Arrays<int> ints(s, ranks_);
    const Arrays<float> floats(s, ranks_);
    s.synchronize();
    meet("made");
    bool behind = false;
    try {
      for (std::size_t i = 0; i < plan_.right.size(); ++i) {
        if (i == plan_.at && bad_ && plan_.moment == Plan::Moment::before && goes_wrong(s)) return true;
        if (i == plan_.at && fault_ == Fault::opposite_order) {
          cross(s, ints);
        } else if (i == plan_.at && bad_ && is_mismatch(fault_)) {
          SharedGate("fault").open();
          call(s, ints, floats, plan_.wrong);
        } else {
          call(s, ints, floats, plan_.right[i]);
        }
        if (waits_often) s.synchronize();
        if (i != plan_.at || !bad_ || plan_.moment == Plan::Moment::before) continue;
        if (plan_.moment == Plan::Moment::behind && !is_mismatch(fault_) && fault_ != Fault::opposite_order)
          s.synchronize();
        for (unsigned n = random_() % 2000; n > 0; --n) std::this_thread::yield();
        if (goes_wrong(s)) return true;
      }
      // A rank may have all that it needs of the first one, although others find there that they differ.
      weir::all_reduce(s, *comm_, inout(ints.x.slice(0, 8)), weir::Maximum{});
      s.synchronize();
      weir::all_reduce(s, *comm_, inout(ints.x.slice(0, 8)), weir::Maximum{});
      weir::host_call(s, [&behind] { behind = true; });
      s.synchronize();
      std::printf("rank %d saw nothing\n", rank_);
    } catch (const weir::Error& error) {
      tell(error);
    }
    try {
      s.synchronize();
    } catch (const weir::Error&) {
    }
    if (behind) std::printf("rank %d went on\n", rank_);
    try {
      weir::barrier(s, *comm_);
      if (fault_ != Fault::opposite_order) std::printf("rank %d may call again\n", rank_);
    } catch (const weir::Error&) {
    }
    return false;
  }
  static void call(const weir::Stream& s, const weir::Communicator& comm, const Arrays<int>& ints,
                   const Arrays<float>& floats, const Step& step) {
    if (step.floats) return floats.call(s, comm, step, weir::Maximum{});
    if (step.minimum) return ints.call(s, comm, step, weir::Minimum{});
    ints.call(s, comm, step, weir::Maximum{});
  }
  void call(const weir::Stream& s, const Arrays<int>& ints, const Arrays<float>& floats, const Step& step) const {
    call(s, *comm_, ints, floats, step);
  }
  void cross(const weir::Stream& s, const Arrays<int>& ints) const {
    const auto x = ints.x.slice(0, 8), y = ints.y.slice(0, 8);
    weir::all_reduce(s, bad_ ? *second_ : *comm_, inout(x), weir::Maximum{});
    weir::all_reduce(s, bad_ ? *comm_ : *second_, inout(y), weir::Maximum{});
  }

  /// True: this rank makes no more calls.
  bool goes_wrong(const weir::Stream& s) {
    if (!is_mismatch(fault_) && fault_ != Fault::opposite_order) SharedGate("fault").open();
    switch (fault_) {
      case Fault::killed: kill(getpid(), SIGKILL); break;
      case Fault::stopped:
        std::ofstream(SharedGate("stopped").path()) << getpid() << std::flush;
        raise(SIGSTOP);
        break;
      case Fault::ended: std::_Exit(0);
      case Fault::exits: std::exit(0);
      case Fault::leaves: comm_.reset(); break;
      case Fault::throws:
        try {
          const std::optional<weir::Communicator> own = std::exchange(comm_, std::nullopt);
          throw std::runtime_error("before the call");
        } catch (const std::runtime_error&) {
        }
        break;
      case Fault::aborts: comm_->abort(); return false;
      case Fault::stream_fails: weir::host_call(s, [] { throw std::runtime_error("the disk is full"); }); return false;
      case Fault::late: break;
      default: return false;
    }
    return true;
  }

  const Fault fault_;
  const weir::Communicator all_;  ///< processes that take long to start are no fault
  std::optional<weir::Communicator> comm_;
  std::optional<weir::Communicator> second_;
  Plan plan_;
  const int ranks_;
  const int rank_;
  const bool bad_;
  std::mt19937 random_;
  bool told_idle_ = true;
};

const Case* case_of(const std::string& name) {
  const auto found = std::find_if(cases.begin(), cases.end(), [&](const Case& one) { return name == one.name; });
  return found == cases.end() ? nullptr : &*found;
}

int number_in(const char* variable, int otherwise) {
  const char* said = std::getenv(variable);
  return said == nullptr ? otherwise : std::atoi(said);
}

/// Of all faults at random: how ranks are started.
class RandomFaults : public testing::TestWithParam<Case> {
 protected:
  /// What the ranks of one job print.
  static std::string run(const Case& one, unsigned seed, const std::string& launcher) {
    const std::string name = std::string(one.name) + "-" + std::to_string(seed);
    const auto gates = std::filesystem::temp_directory_path() / ("weir-ranks-" + std::to_string(getpid()) + "-" + name);
    std::filesystem::remove_all(gates);
    std::filesystem::create_directory(gates);
    const std::string out = ranks_test::output_of(
        "export WEIR_TEST_GATES=" + gates.string() + " WEIR_TEST_FAULT=" + name +
        " WEIR_RANK_SILENCE=" + (one.fault == Fault::stopped ? "1" : "30") + (seed % 5 == 0 ? " WEIR_CHECK=1" : "") +
        "; timeout 45 " + launcher + " " + ranks_test::own_program() +
        " --gtest_brief=1 --gtest_filter=RandomScene.* 2>&1; test $? -ne 124 && echo the job has ended");
    std::string said;
    for (const auto& file : std::filesystem::directory_iterator(gates)) {
      if (file.path().filename().string().starts_with("said-")) {
        said += (std::ostringstream() << std::ifstream(file.path()).rdbuf()).str();
      }
    }
    std::filesystem::remove_all(gates);
    return said + out;
  }
  void expect(const Case& one, unsigned seed, int ranks, const std::string& out) {
    const Plan plan(one.fault, seed, ranks);
    for (int r = 0; r < ranks; ++r) {
      const std::string rank = "rank " + std::to_string(r);
      if (r == plan.bad && !is_mismatch(one.fault)) continue;
      EXPECT_NE(out.find(rank + " saw " + one.code), std::string::npos) << rank << " in\n" << out;
      const bool idle = out.find(rank + " has no memory of its calls, and its stream is idle") != std::string::npos;
      const bool kept = out.find(rank + " has still memory of its calls, and its stream is idle") != std::string::npos;
      EXPECT_TRUE(idle || (by_mpi_ && kept)) << rank << " in\n" << out;
    }
    static const std::regex saw("saw (\\w+) after (\\d+) ms");
    for (std::sregex_iterator it(out.begin(), out.end(), saw), end; it != end; ++it) {
      longest_ = std::max(longest_, std::chrono::milliseconds(std::stol((*it)[2].str())));
    }
    EXPECT_LT(longest_, weir_test::child_limit) << out;
    if (one.fault == Fault::opposite_order) {
      EXPECT_NE(out.find("ranks did not come in time"), std::string::npos) << out;
    }
    EXPECT_NE(out.find("the job has ended"), std::string::npos) << out;
    for (const char* wrong : {"saw nothing", "went on", "may call again", "saw something else"}) {
      EXPECT_EQ(out.find(wrong), std::string::npos) << out;
    }
  }

  /// One job for each seed; `launcher` is told how many ranks it has.
  template <class F>
  void play(F&& launcher) {
    const auto first = static_cast<unsigned>(number_in("WEIR_RANKS_SEED", 1));
    const auto runs = static_cast<unsigned>(number_in("WEIR_RANKS_FAULTS", 1));
    for (unsigned seed = first; seed < first + runs; ++seed) {
      const int ranks = 2 + static_cast<int>(seed % 3);
      SCOPED_TRACE("WEIR_RANKS_SEED=" + std::to_string(seed));
      std::string out;
      for (int tries = 0; tries < 5 && (tries == 0 || ended_by_mpi(out)); ++tries) {
        weir_test::watch_anew();
        out = run(GetParam(), seed, launcher(std::to_string(ranks)));
      }
      expect(GetParam(), seed, ranks, out);
      if (HasFailure()) return;
    }
    RecordProperty("longest_ms", std::to_string(longest_.count()));
  }

  /// UCX, which MPICH uses, now and then ends a process of its own accord whose peer died amid a message (docs/collectives.md).
  bool ended_by_mpi(const std::string& out) const {
    return by_mpi_ && out.find("ucs_fatal_error") != std::string::npos;
  }

  bool by_mpi_ = false;
  std::chrono::milliseconds longest_{0};
};

}  // namespace

TEST(RandomScene, plays) {
  const char* said = std::getenv("WEIR_TEST_FAULT");
  if (said == nullptr || !ranks_test::is_rank()) GTEST_SKIP() << "FaultsAtRandom starts it";
  const std::string name = said;
  const std::size_t dash = name.rfind('-');
  const Case* one = case_of(name.substr(0, dash));
  ASSERT_NE(one, nullptr) << name;
  // A launcher may end before it has passed on what a rank prints.
  ASSERT_NE(std::freopen(SharedGate("said-" + std::to_string(getpid())).path().c_str(), "w", stdout), nullptr);
  Player(*one, static_cast<unsigned>(std::stoul(name.substr(dash + 1)))).play();
}

#ifdef WEIR_TEST_TOOL
class FaultsAtRandom : public RandomFaults {};
TEST_P(FaultsAtRandom, every_survivor_gets_an_error_that_fits) {
  play([](const std::string& ranks) { return WEIR_TEST_TOOL " ranks -n " + ranks + " --grace 30 --raw --"; });
}
INSTANTIATE_TEST_SUITE_P(, FaultsAtRandom, testing::ValuesIn(cases),
                         [](const auto& one) { return std::string(one.param.name); });
#endif
#ifdef WEIR_TEST_MPI_LAUNCHER
class FaultsAtRandomOfMpi : public RandomFaults {};
TEST_P(FaultsAtRandomOfMpi, every_survivor_gets_an_error_that_fits) {
  by_mpi_ = true;  // which may write to memory of a call that failed: it is kept
  play([](const std::string& ranks) {
    // MPICH's launcher ends the job of a process that a signal ends, whatever it is told: it sees shells that end well.
    const std::string program = std::string_view(WEIR_TEST_MPI_LAUNCHER).find("mpich") != std::string_view::npos
                                    ? R"( sh -c 'trap "" USR1; "$0" "$@"; true')"
                                    : "";
    return "env UCX_TLS=^cma OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 " WEIR_TEST_MPI_LAUNCHER " -n " +
           ranks + program;
  });
}
INSTANTIATE_TEST_SUITE_P(, FaultsAtRandomOfMpi, testing::ValuesIn(cases),
                         [](const auto& one) { return std::string(one.param.name); });
#endif
