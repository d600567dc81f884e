// What goes wrong between processes. Each scene is run by all ranks of a job that faults_test.cpp starts, and prints what its
// rank saw.
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <unistd.h>

#include <gtest/gtest.h>

#include "ranks/scenes.hpp"
#include "ranks/world.hpp"
#include "support/between_looks.hpp"

namespace {

using namespace std::chrono_literals;
using ranks_test::name_of;
using ranks_test::SharedGate;

class Scene : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!ranks_test::is_rank() || std::getenv("WEIR_TEST_GATES") == nullptr)
      GTEST_SKIP() << "faults_test.cpp starts it";
    open(60s);
  }
  void open(std::chrono::nanoseconds timeout) {
    comm_ = ranks_test::make({.name = "grads", .timeout = timeout});
    rank_ = comm_->rank();
    weir::barrier(s_, *comm_);
    s_.synchronize();
    meet(std::to_string(++opened_));  // nobody goes wrong while another one has yet to come out of the barrier
  }
  void meet(const std::string& name) const {
    SharedGate(name + "-" + std::to_string(rank_)).open();
    for (int r = 0; r < comm_->size(); ++r) SharedGate(name + "-" + std::to_string(r)).wait();
  }
  /// Nobody goes wrong while another one captures.
  template <class F>
  weir::Graph captured(F&& body) {
    weir::Graph graph = weir::capture(s_, body);
    meet("captured");
    return graph;
  }
  /// Calls, waits, and prints the error. Nothing behind the call may run, and later calls throw at once.
  void fails(const std::function<void()>& call) {
    bool ran = false;
    try {
      call();
      weir::host_call(s_, [&ran] { ran = true; });
      s_.synchronize();
      std::printf("rank %d saw nothing\n", rank_);
    } catch (const weir::Error& error) {
      tell(error);
    }
    try {
      s_.synchronize();
    } catch (const weir::Error&) {
    }
    if (ran) std::printf("rank %d went on\n", rank_);
    try {
      weir::barrier(s_, *comm_);
      std::printf("rank %d may call again\n", rank_);
    } catch (const weir::Error&) {
    }
    std::fflush(stdout);
  }
  void tell(const weir::Error& error) const {
    std::printf("rank %d saw %s: %s\n", rank_, name_of(static_cast<weir::Errc>(error.code().value())), error.what());
    std::fflush(stdout);
  }
  /// Returns once this process knows that the communicator has failed: others may know it earlier.
  void await_failure() const {
    for (int looks = 0;; ++looks) {
      try {
        static_cast<void>(comm_->without_failed());
        return;
      } catch (const weir::Error& error) {
        if (error.errc() != weir::Errc::not_ready) return;
      }
      weir_test::between_looks(looks);
    }
  }
  void sum() {
    fails([this] { weir::all_reduce(s_, *comm_, weir::inout(x_)); });
  }

  weir::Stream s_{ranks_test::device()};
  weir::Array<float> x_ = weir::zeros<float>(s_, 8);
  std::optional<weir::Communicator> comm_;
  int rank_ = 0;
  int opened_ = 0;
};

}  // namespace

TEST_F(Scene, killed) {
  if (rank_ == 1) kill(getpid(), SIGKILL);
  sum();
}
TEST_F(Scene, killed_first_rank) {
  if (rank_ == 0) kill(getpid(), SIGKILL);
  sum();
}
TEST_F(Scene, killed_amid_large_ones) {
  const auto large = weir::zeros<float>(s_, 1 << 20);
  std::thread killer;
  if (rank_ == 1) {
    killer = std::thread([] {
      SharedGate("moving").wait();
      kill(getpid(), SIGKILL);
    });
    killer.detach();
  }
  fails([&, this] {
    for (int i = 0; i < 2000; ++i) {
      weir::all_reduce(s_, *comm_, weir::inout(large));
      if (i != 5) continue;
      s_.synchronize();
      SharedGate("moving").open();
    }
  });
}
TEST_F(Scene, ended) {
  if (rank_ == 1) std::_Exit(0);
  sum();
}
TEST_F(Scene, stopped) {
  const auto ids = weir::zeros<int>(s_, static_cast<std::size_t>(comm_->size()));
  const auto own = weir::full<int>(s_, 1, getpid());
  weir::all_gather(s_, *comm_, weir::in(own), weir::out(ids));
  const int stopped = ids.to_host()[1];
  weir::barrier(s_, *comm_);
  s_.synchronize();
  if (rank_ == 1) raise(SIGSTOP);
  sum();
  if (rank_ == 0) kill(stopped, SIGKILL);
}
TEST_F(Scene, late) {
  open(1s);
  if (rank_ == 1) await_failure();
  sum();
}
TEST_F(Scene, aborted_for_good) {
  if (rank_ == 1) comm_->abort();
  sum();
  try {
    static_cast<void>(comm_->without_failed());
    std::printf("rank %d goes on\n", rank_);
  } catch (const weir::Error& error) {
    std::printf("rank %d stays%s: %s\n", rank_, error.errc() == weir::Errc::not_supported ? " for good" : "",
                error.what());
  }
  std::fflush(stdout);
}
TEST_F(Scene, stream_held) {
  open(1s);
  if (rank_ == 1) weir::host_call(s_, [] { SharedGate("failed").wait(); });
  fails([this] {
    weir::all_reduce(s_, *comm_, weir::inout(x_));
    if (rank_ != 1) return;
    await_failure();
    SharedGate("failed").open();
  });
}
TEST_F(Scene, count) {
  fails([this] { weir::all_reduce(s_, *comm_, weir::inout(x_.slice(0, rank_ == 1 ? 7 : 8))); });
}
TEST_F(Scene, large_count) {
  const auto large = weir::zeros<float>(s_, 100'000);
  fails([&, this] { weir::all_reduce(s_, *comm_, weir::inout(large.slice(0, rank_ == 1 ? 99'999 : 100'000))); });
}
TEST_F(Scene, grouped_count) {
  const auto y = weir::zeros<float>(s_, 8), z = weir::zeros<float>(s_, 8);
  s_.synchronize();
  fails([&, this] {
    const weir::CollectiveGroup group;
    weir::all_reduce(s_, *comm_, weir::inout(y));
    weir::all_reduce(s_, *comm_, weir::inout(x_.slice(0, rank_ == 1 ? 7 : 8)));
    weir::all_reduce(s_, *comm_, weir::inout(z));
  });
}
TEST_F(Scene, type) {
  const auto y = weir::zeros<int>(s_, 8);
  if (rank_ == 1) fails([&, this] { weir::all_reduce(s_, *comm_, weir::inout(y)); });
  if (rank_ != 1) sum();
}
TEST_F(Scene, operation) {
  if (rank_ == 1) fails([this] { weir::all_reduce(s_, *comm_, weir::inout(x_), weir::Maximum{}); });
  if (rank_ != 1) sum();
}
TEST_F(Scene, root) {
  fails([this] { weir::broadcast(s_, *comm_, weir::inout(x_), rank_ == 1 ? 1 : 0); });
}
TEST_F(Scene, kind) {
  if (rank_ == 1) fails([this] { weir::broadcast(s_, *comm_, weir::inout(x_), 2); });
  if (rank_ != 1) sum();
}
TEST_F(Scene, opposite_order) {
  const weir::Communicator second = ranks_test::make({.name = "second", .timeout = 1s});
  open(1s);
  const auto y = weir::zeros<float>(s_, 8);
  if (rank_ != 1) {
    weir::all_reduce(s_, *comm_, weir::inout(x_));
    fails([&, this] { weir::all_reduce(s_, second, weir::inout(y)); });
  } else {
    weir::all_reduce(s_, second, weir::inout(y));
    fails([this] { weir::all_reduce(s_, *comm_, weir::inout(x_)); });
  }
}
TEST_F(Scene, stream_failed) {
  if (rank_ == 1) weir::host_call(s_, [] { throw std::runtime_error("the disk is full"); });
  sum();
  // A process that ends now is another fault, which the others may see first.
  if (rank_ != 1) return SharedGate("seen-" + std::to_string(rank_)).open();
  for (int r = 0; r < comm_->size(); ++r) {
    if (r != 1) SharedGate("seen-" + std::to_string(r)).wait();
  }
}
/// Its own account is not all that it has: the others' lines come, too.
TEST_F(Scene, stream_failed_here) {
  if (rank_ == 1) weir::host_call(s_, [] { throw std::runtime_error("the disk is full"); });
  sum();
  if (rank_ == 1) {
    try {
      weir::barrier(s_, *comm_);
    } catch (const weir::Error& error) {
      const std::string what = error.what();
      std::size_t lines = 0;
      for (std::size_t at = 0; (at = what.find("\n  rank ", at)) != std::string::npos; ++at) ++lines;
      std::printf("rank 1 knows of %zu ranks\n", lines);
    }
  }
  meet("seen");
}
TEST_F(Scene, aborted_and_left) {
  if (rank_ == 1) {
    comm_->abort();
    comm_.reset();
    return;
  }
  sum();
}
TEST_F(Scene, left_before_a_split) {
  if (rank_ == 1) {
    comm_.reset();
    return;
  }
  fails([this] { static_cast<void>(comm_->split(0, 0).size()); });
}
/// Roots that differ are found by the next call, which is right.
TEST_F(Scene, earlier_roots) {
  fails([this] {
    weir::broadcast(s_, *comm_, weir::inout(x_), rank_ == 1 ? 1 : 0);
    weir::all_reduce(s_, *comm_, weir::inout(x_));
  });
}
TEST_F(Scene, sent_count) {
  fails([this] {
    if (rank_ == 0) weir::send(s_, *comm_, weir::in(x_), 1);
    if (rank_ == 1) weir::receive(s_, *comm_, weir::out(x_.slice(0, 7)), 0);
    weir::all_reduce(s_, *comm_, weir::inout(x_));
  });
}
TEST_F(Scene, exchanged_counts) {
  const auto x = weir::zeros<float>(s_, 4 * static_cast<std::size_t>(comm_->size()));
  fails([&, this] {
    std::vector<std::size_t> send(static_cast<std::size_t>(comm_->size()), 4), receive = send;
    if (rank_ == 1) receive[0] = 3;
    const auto y = weir::zeros<float>(s_, x.size() - (rank_ == 1 ? 1 : 0));
    weir::all_to_all(s_, *comm_, weir::in(x), std::span<const std::size_t>(send), weir::out(y),
                     std::span<const std::size_t>(receive));
    weir::all_reduce(s_, *comm_, weir::inout(x_));
  });
}
/// Graphs say the lines of what they captured.
TEST_F(Scene, captured_count) {
  const weir::Graph graph =
      captured([this] { weir::all_reduce(s_, *comm_, weir::inout(x_.slice(0, rank_ == 1 ? 7 : 8))); });
  fails([&, this] { graph.launch(s_); });
}
TEST_F(Scene, captured_and_killed) {
  const weir::Graph graph = captured([this] { weir::all_reduce(s_, *comm_, weir::inout(x_)); });
  graph.launch(s_);
  s_.synchronize();
  meet("launched");  // the first launch is over for all
  if (rank_ == 1) kill(getpid(), SIGKILL);
  fails([&, this] { graph.launch(s_); });
}
/// Of a launch that cannot be whole nothing runs.
TEST_F(Scene, captured_and_aborted) {
  const weir::Graph graph = captured([this] {
    weir::host_call(s_, [rank = rank_] { std::printf("rank %d went on\n", rank); });
    weir::all_reduce(s_, *comm_, weir::inout(x_));
  });
  if (rank_ == 1) comm_->abort();
  await_failure();
  fails([&, this] { graph.launch(s_); });
}
TEST_F(Scene, captured_in_a_stream_that_failed) {
  const weir::Graph graph = captured([this] {
    weir::host_call(s_, [rank = rank_] {
      if (rank == 1) throw std::runtime_error("the disk is full");
    });
    weir::all_reduce(s_, *comm_, weir::inout(x_));
  });
  fails([&, this] { graph.launch(s_); });
  meet("seen");
}
/// A child that forked has the sockets of the process that is killed.
TEST_F(Scene, killed_beside_its_child) {
  if (rank_ == 1) {
    if (fork() == 0) {
      alarm(50);
      for (const int r : {0, 2}) SharedGate("seen-" + std::to_string(r)).wait();
      std::_Exit(0);
    }
    kill(getpid(), SIGKILL);
  }
  sum();
  SharedGate("seen-" + std::to_string(rank_)).open();
}
TEST_F(Scene, exits) {
  if (rank_ == 1) std::exit(0);
  sum();
}
TEST_F(Scene, aborted) {
  if (rank_ == 1) comm_->abort();
  sum();
}
TEST_F(Scene, left) {
  if (rank_ == 1) {
    comm_.reset();
    return;
  }
  sum();
}
/// The connection for data stays, for what split() gave.
TEST_F(Scene, left_beside_a_split) {
  const weir::Communicator split = comm_->split(0, 0);
  if (rank_ == 1) {
    SharedGate("calls").wait();
    comm_.reset();
    return SharedGate("seen").wait();
  }
  if (rank_ != 0) return SharedGate("seen").wait();
  fails([this] {
    weir::receive(s_, *comm_, weir::out(x_), 1);
    SharedGate("calls").open();
  });
  SharedGate("seen").open();
}
TEST_F(Scene, compared) {
  // The root sends and goes on, where nobody compares.
  if (rank_ == 0) fails([this] { weir::broadcast(s_, *comm_, weir::inout(x_), 0); });
  if (rank_ != 0) fails([this] { weir::broadcast(s_, *comm_, weir::inout(x_.slice(0, 4)), 0); });
}
