// Memory that messages are in: it outlives its arrays until the call is over, and for ever where a message cannot be given up.
#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string_view>
#include <thread>
#include <variant>

#include <gtest/gtest.h>

#include <weir/observer.hpp>

#include "core/ranks/engine.hpp"
#include "core/ranks/ranked_state.hpp"
#include "no_waits.hpp"
#include "support/between_looks.hpp"
#include "support/sanitizers.hpp"

namespace {

using namespace std::chrono_literals;
using weir::detail::CommunicatorState;
using weir::detail::RankArrival;
using weir::detail::RankedCall;
using weir::detail::RankEngine;
using weir::detail::SharedLink;
using weir::detail::Transfer;

/// Messages arrive when the test says so, and can be given up if it says so.
class HeldLink final : public weir::detail::RankLink {
 public:
  struct Says {
    bool arrives = false;
    bool gives_up = false;
    int looks = 0;  ///< how often it was asked to give something up
  };
  explicit HeldLink(Says& says) : says_(says) {}
  std::string_view name() const override { return "held"; }
  void send(Transfer& transfer, int, std::uint32_t, const std::byte*, std::size_t) override {
    transfer.state = Transfer::State::under_way;
  }
  void receive(Transfer&, int, std::uint32_t, std::byte*, std::size_t) override {}
  void test(Transfer& transfer) override {
    if (says_.arrives) transfer.state = Transfer::State::done;
  }
  bool cancel(Transfer& transfer) override {
    ++says_.looks;
    if (says_.gives_up) transfer.state = Transfer::State::idle;
    return says_.gives_up;
  }

 private:
  Says& says_;
};

/// Whether the thread that gives memory back may wait for room in a stream.
class Frees final : public weir::Observer {
 public:
  Frees() { weir::attach(*this, weir::Watch::memory); }
  ~Frees() override { weir::detach(*this); }
  void submitted(const weir::Command& command) override {
    if (std::holds_alternative<weir::Free>(command.op)) ++(weir::detail::NoWaits::here() ? put_off : waiting);
  }
  int put_off = 0;
  int waiting = 0;
};

/// A send to rank 1 whose array is gone.
class RankMemory : public ::testing::Test {
 protected:
  static constexpr std::size_t bytes = std::size_t{1} << 20;

  std::size_t used() const { return weir::default_pool(cpu_).statistics().used; }
  void look_until(const std::function<bool()>& done) {
    for (int looks = 0; looks < 5000 && !done(); ++looks) {
      static_cast<void>(engine_->look());
      std::this_thread::yield();
    }
  }
  void SetUp() override {
    before_ = used();
    std::optional<weir::Array<std::byte>> x(weir::empty<std::byte>(stream_, bytes));
    const weir::detail::CollectiveRequest request{
        .kind = weir::detail::CollectiveKind::send, .in = weir::detail::operand(weir::in(*x)), .peer = 1};
    auto* const call = new RankedCall(communicator_, 0, 0, arrival_, engine_);
    call->offer(0).emplace(request, weir::StreamRef(stream_), weir::SourceLocation{});
    engine_->add(weir::detail::CallReference(call), 1);
    x.reset();
    arrival_->nanoseconds = 1;
    static_cast<void>(engine_->look());
    EXPECT_EQ(used(), before_ + bytes);
  }

  const weir::Device cpu_ = weir::device("cpu");
  const weir::Stream stream_{cpu_};
  HeldLink::Says says_;
  const std::shared_ptr<CommunicatorState> communicator_ =
      std::make_shared<CommunicatorState>(cpu_, 2, weir::CommunicatorOptions{.name = "held"}, weir::SourceLocation{});
  const std::shared_ptr<RankArrival> arrival_ = std::make_shared<RankArrival>();
  const std::shared_ptr<RankEngine> engine_ =
      std::make_shared<RankEngine>(std::make_shared<SharedLink>(std::make_unique<HeldLink>(says_)),
                                   RankEngine::Place{.members = {0, 1}, .rank = 0, .context = 0, .compare = false},
                                   std::weak_ptr<weir::detail::RankedState>());
  std::size_t before_ = 0;
};

}  // namespace

TEST_F(RankMemory, goes_when_its_message_has_arrived) {
  says_.arrives = true;
  look_until([&] { return used() == before_; });
  EXPECT_EQ(used(), before_);
}
TEST_F(RankMemory, goes_by_a_thread_that_waits_for_no_room_in_streams) {
  const Frees frees;
  says_.arrives = true;
  look_until([&] { return used() == before_; });
  EXPECT_EQ(frees.put_off, 1);
  EXPECT_EQ(frees.waiting, 0);
}
TEST_F(RankMemory, goes_when_its_message_was_given_up) {
  says_.gives_up = true;
  engine_->stop(weir::Errc::rank_failed, "a test", nullptr, nullptr);
  look_until([&] { return used() == before_; });
  EXPECT_EQ(used(), before_);
}
TEST_F(RankMemory, stays_for_ever_where_a_message_cannot_be_given_up) {
  if (weir_test::under_address_sanitizer) {
    says_.arrives = true;
    look_until([&] { return used() == before_; });
    GTEST_SKIP() << "memory that is lost on purpose is a leak to the sanitizer";
  }
  engine_->stop(weir::Errc::rank_failed, "a test", nullptr, nullptr);
  const auto until = std::chrono::steady_clock::now() + 20s;
  for (int looks = 0; engine_->look().pending && std::chrono::steady_clock::now() < until; ++looks)
    weir_test::between_looks(looks);
  EXPECT_GT(says_.looks, 1);
  EXPECT_FALSE(engine_->look().pending) << "it is still waited for";
  EXPECT_EQ(used(), before_ + bytes);
}
