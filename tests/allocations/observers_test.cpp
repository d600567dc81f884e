// Commands that were told to observers, and for which there is no memory then: they are told as refused, and nothing has changed.
#include <array>
#include <atomic>

#include <weir/trace.hpp>

#include "one_failure.hpp"

namespace weir_test {
namespace {

const weir::Device cpu = weir::device("cpu");

struct CountedKernel {
  Counted counted;
  std::array<char, 100'000> large{};  // such a one is not kept in memory that was there before
  void operator()(std::size_t) const {}
};

/// Counts what is told, without memory of its own.
class Tally final : public weir::Observer {
 public:
  Tally(weir::StreamRef legacy, weir::StreamId other) : legacy_(legacy.id()), other_(other) {
    weir::attach(*this, weir::Watch::commands | weir::Watch::times | weir::Watch::refusals);
  }
  ~Tally() override {
    try {
      weir::detach(*this);
    } catch (const std::bad_alloc&) {
      weir::detach(*this);  // one allocation fails, once
    }
  }
  Tally(const Tally&) = delete;
  Tally& operator=(const Tally&) = delete;

  void submitted(const weir::Command& command) override {
    ++submitted_;
    if (command.stream != legacy_) return;
    behind_other = false;
    for (const weir::StreamId id : command.behind) behind_other = behind_other || id == other_;
  }
  void refused(const weir::Refusal& refusal) override { refused_ += refusal.told ? 1 : 0; }
  void ran(weir::CommandId, weir::StreamId, weir::Span) override { ++ran_; }

  /// Of what was told, once all of it is over.
  void expect_all_ran_or_refused() {
    for (int i = 0; i < 1000 && submitted_ != ran_ + refused_; ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    EXPECT_EQ(submitted_, ran_ + refused_) << refused_ << " were refused";
  }

  bool behind_other = false;  ///< the last command of the legacy stream

 private:
  weir::StreamId legacy_;
  weir::StreamId other_;
  int submitted_ = 0;
  int refused_ = 0;
  std::atomic<int> ran_{0};
};

//  s: blocking [] [] ...      legacy: [] [] ...      by turns: each of the legacy stream's comes behind s
TEST(OneFailingAllocation, CommandsThatWereToldAreToldAsRefused) {
  with_every_allocation_failing([] {
    const weir::StreamRef legacy = weir::legacy_stream(cpu);
    const weir::Stream s(cpu);
    Tally tally(legacy, s.id());
    const auto checked = [&](auto&& call, auto&& again) {
      try {
        call();
      } catch (...) {
        again();
        weir::synchronize();
        tally.expect_all_ran_or_refused();
        throw;
      }
    };
    for (int i = 0; i < 3; ++i) {
      checked([&] { weir::launch(s, 1, CountedKernel{}); }, [] {});
      const auto by_legacy = [&] { weir::launch(legacy, 1, CountedKernel{}); };
      checked(by_legacy, [&] {
        by_legacy();
        EXPECT_TRUE(tally.behind_other) << "what it comes behind went with the one that was refused";
      });
    }
    weir::synchronize();
    tally.expect_all_ran_or_refused();
  });
}

TEST(OneFailingAllocation, CommandsOfEveryKindRunOrAreToldAsRefused) {
  const weir::Stream own(cpu);
  auto z = weir::zeros<int>(own, 8);
  const weir::Graph graph = weir::capture(own, [&] { weir::launch(own, 8, Set{}, weir::out(z), 1); });
  own.synchronize();
  with_every_allocation_failing([&] {
    const weir::Stream s(cpu, {.blocking = false});
    const auto x = weir::zeros<int>(s, 64), y = weir::zeros<int>(s, 64);
    std::vector<int> values(64, 1);
    s.synchronize();
    Tally tally(s, 0);
    try {
      weir::host_call(s, [large = std::array<char, 100'000>{}] { static_cast<void>(large); });
      weir::copy(s, x, values);
      weir::copy(s, y, x);
      weir::fill(s, x, 2);
      s.wait(s.record());
      graph.launch(s);
      weir::copy(s, values, y);
      weir::external(s, [](void*) {});
    } catch (...) {
      s.synchronize();
      tally.expect_all_ran_or_refused();
      throw;
    }
    s.synchronize();
    tally.expect_all_ran_or_refused();
  });
}

TEST(OneFailingAllocation, CommandsThatAreRefusedAreInNoTimeline) {
  const weir::Stream s(cpu);
  {
    const weir::trace::Session first;  // a thread without memory for its first words to observers would end the process
    weir::launch(s, 1, CountedKernel{});
    s.synchronize();
  }
  int refused = 0;
  for (std::int64_t n = 0; n < 20; ++n) {
    weir::trace::Session session;
    bool is_refused = false;
    fail_allocation(Whose::this_thread, n);
    try {
      weir::launch(s, 1, CountedKernel{});
    } catch (const std::exception&) {
      is_refused = true;
    }
    const bool failed = stop_failing();
    s.synchronize();
    const weir::trace::Timeline timeline = session.stop();
    EXPECT_TRUE(!is_refused || timeline.commands.empty()) << "allocation " << n;
    refused += is_refused ? 1 : 0;
    if (!failed) break;
  }
  EXPECT_GT(refused, 0);
}

}  // namespace
}  // namespace weir_test
