// One rank of several goes wrong at a random moment: every other one gets an error that fits, and no thread or stream hangs.
// WEIR_COLLECTIVES_FAULTS=200 runs as many of each.
#include <cstdlib>
#include <optional>
#include <random>
#include <stdexcept>
#include <thread>

#include "collectives/ranks.hpp"

namespace weir_test {
namespace {

using weir::Errc;
using weir::inout;

enum class Fault { leaves, aborts, stream_fails, calls_other, does_not_come };

/// Thirty collectives by a thread for each rank, of which one goes wrong; what each one hears first.
std::vector<std::optional<weir::Error>> run(Fault fault, unsigned seed) {
  const std::size_t n = std::min<std::size_t>(3, most_ranks());
  std::mt19937 random(seed);
  const std::size_t bad = random() % n;
  const int step = static_cast<int>(random() % 30);
  const bool waits_often = random() % 2 == 0;
  Ranks ranks(n, {.name = "faulty", .timeout = std::chrono::milliseconds(fault == Fault::does_not_come ? 30 : 20'000)});
  const auto x = ranks.arrays<int>(seed % 3 == 2 ? many : 100, [](std::size_t, std::size_t) { return 1; });
  std::vector<std::optional<weir::Error>> heard(n);
  std::vector<std::thread> threads;
  for (std::size_t r = 0; r < n; ++r) {
    threads.emplace_back([&, r] {
      weir::Communicator comm = std::move(ranks.comms[r]);
      const weir::Stream& s = ranks.streams[r];
      heard[r] = error_of([&] {
        for (int i = 0; i < 30; ++i) {
          if (r == bad && i == step) {
            if (fault == Fault::leaves) return;
            if (fault == Fault::aborts) comm.abort();
            if (fault == Fault::stream_fails) weir::host_call(s, [] { throw std::runtime_error("burst"); });
            if (fault == Fault::calls_other) weir::barrier(s, comm);
            if (fault == Fault::does_not_come) break;
          }
          weir::all_reduce(s, comm, inout(x[r]), weir::Maximum{});
          if (waits_often) s.synchronize();
        }
        s.synchronize();
      });
      static_cast<void>(error_of([&] { s.synchronize(); }));
      if (fault == Fault::does_not_come && r == bad) {  // it is there, and silent, until the others have heard
        EXPECT_TRUE(eventually([&] {
          const auto error = error_of([&] { static_cast<void>(comm.without_failed()); });
          return !error || error->errc() != Errc::not_ready;
        }));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const weir::Stream& stream : ranks.streams) EXPECT_TRUE(stream.done());
  heard[bad].reset();  // its own: it need not hear of it
  heard.erase(heard.begin() + static_cast<std::ptrdiff_t>(bad));
  return heard;
}

class CollectivesFaults : public testing::TestWithParam<std::pair<Fault, Errc>> {};

TEST_P(CollectivesFaults, every_other_rank_gets_an_error_that_fits) {
  WEIR_NEEDS_RANKS(2u);
  const auto [fault, code] = GetParam();
  const char* wanted = std::getenv("WEIR_COLLECTIVES_FAULTS");
  const unsigned runs = wanted != nullptr ? static_cast<unsigned>(std::atoi(wanted)) : on_real_gpus() ? 2 : 5;
  for (unsigned seed = 1; seed <= runs; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    watch_anew();
    for (const auto& error : run(fault, seed)) {
      ASSERT_TRUE(error.has_value());
      EXPECT_EQ(error->errc(), code) << error->what();
    }
  }
}

INSTANTIATE_TEST_SUITE_P(, CollectivesFaults,
                         testing::Values(std::pair{Fault::leaves, Errc::rank_failed},
                                         std::pair{Fault::aborts, Errc::rank_failed},
                                         std::pair{Fault::stream_fails, Errc::rank_failed},
                                         std::pair{Fault::calls_other, Errc::collective_mismatch},
                                         std::pair{Fault::does_not_come, Errc::collective_timeout}));

}  // namespace
}  // namespace weir_test
