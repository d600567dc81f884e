// Collectives that a mover does: it begins when all ranks agree, and its memory is let go when it is through.
#include <atomic>
#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include <gtest/gtest.h>

#include "core/ranks/engine.hpp"
#include "core/ranks/opening.hpp"
#include "core/ranks/ranked_state.hpp"
#include "support/between_looks.hpp"
#include "support/sanitizers.hpp"

namespace {

using namespace std::chrono_literals;
using weir::detail::CollectiveCall;
using weir::detail::CommunicatorState;
using weir::detail::RankArrival;
using weir::detail::RankedCall;
using weir::detail::RankEngine;
using weir::detail::RankMove;
using weir::detail::SharedLink;
using weir::detail::Transfer;

/// What a rank sends comes back as what the other one sends: a peer that calls the same.
class EchoLink final : public weir::detail::RankLink {
 public:
  explicit EchoLink(const bool& open) : open_(open) {}
  std::string_view name() const override { return "echo"; }
  void send(Transfer& transfer, int, std::uint32_t, const std::byte* data, std::size_t bytes) override {
    sent_.assign(data, data + bytes);
    transfer.state = Transfer::State::done;
  }
  void receive(Transfer& transfer, int, std::uint32_t, std::byte* data, std::size_t) override {
    transfer.state = Transfer::State::under_way;
    to_ = data;
  }
  void test(Transfer& transfer) override {
    if (!open_ || sent_.empty()) return;
    std::copy(sent_.begin(), sent_.end(), to_);
    transfer.bytes = sent_.size();
    transfer.state = Transfer::State::done;
  }
  bool cancel(Transfer& transfer) override {
    transfer.state = Transfer::State::idle;
    return true;
  }

 private:
  const bool& open_;
  std::vector<std::byte> sent_;
  std::byte* to_ = nullptr;
};

class HeldMover final : public weir::detail::RankMover {
 public:
  struct Says {
    std::shared_ptr<RankMove> move;
    bool abandoned = false;
  };
  explicit HeldMover(Says& says) : says_(says) {}
  std::string_view name() const override { return "held"; }
  std::string offer(int, int) override { return {}; }
  std::string make_key(const std::vector<std::string>&) override { return "key"; }
  void open(const std::string&, int, int, std::shared_ptr<RankMove>) noexcept override {}
  bool moves(const weir::detail::CollectiveRequest&) const override { return true; }
  void move(CollectiveCall&, std::shared_ptr<RankMove> move) noexcept override { says_.move = std::move(move); }
  void abandon() noexcept override { says_.abandoned = true; }

 private:
  Says& says_;
};

/// An all_reduce of two ranks, whose array is gone.
class RankMoves : public ::testing::Test {
 protected:
  static constexpr std::size_t bytes = std::size_t{1} << 20;

  std::size_t used() const { return weir::default_pool(cpu_).statistics().used; }
  void look_until(const std::function<bool()>& done) {
    const auto until = std::chrono::steady_clock::now() + 20s;
    for (int looks = 0; !done() && std::chrono::steady_clock::now() < until; ++looks) {
      static_cast<void>(engine_->look());
      weir_test::between_looks(looks);
    }
  }
  void SetUp() override {
    before_ = used();
    engine_->set_mover(std::make_shared<HeldMover>(says_));
    std::optional<weir::Array<std::byte>> x(weir::empty<std::byte>(stream_, bytes));
    const weir::detail::CollectiveRequest request{
        .kind = weir::detail::CollectiveKind::broadcast, .out = weir::detail::operand(weir::inout(*x)), .peer = 1};
    auto* const call = new RankedCall(communicator_, 1, 0, arrival_, engine_);
    call->offer(0).emplace(request, weir::StreamRef(stream_), weir::SourceLocation{});
    engine_->add(weir::detail::CallReference(call), 0);
    x.reset();
  }
  void come() {
    arrival_->nanoseconds = 1;
    open_ = true;
    look_until([&] { return says_.move != nullptr; });
    ASSERT_NE(says_.move, nullptr);
  }
  void stop() { engine_->stop(weir::Errc::rank_failed, "a test", nullptr, nullptr); }

  const weir::Device cpu_ = weir::device("cpu");
  const weir::Stream stream_{cpu_};
  bool open_ = false;
  HeldMover::Says says_;
  const std::shared_ptr<CommunicatorState> communicator_ =
      std::make_shared<CommunicatorState>(cpu_, 2, weir::CommunicatorOptions{.name = "held"}, weir::SourceLocation{});
  const std::shared_ptr<RankArrival> arrival_ = std::make_shared<RankArrival>();
  const std::shared_ptr<RankEngine> engine_ =
      std::make_shared<RankEngine>(std::make_shared<SharedLink>(std::make_unique<EchoLink>(open_)),
                                   RankEngine::Place{.members = {0, 1}, .rank = 0, .context = 0, .compare = false},
                                   std::weak_ptr<weir::detail::RankedState>());
  std::size_t before_ = 0;
};

}  // namespace

TEST_F(RankMoves, begin_when_the_other_rank_has_come_and_keep_their_memory_until_they_are_over) {
  arrival_->nanoseconds = 1;
  for (int looks = 0; looks < 100; ++looks) static_cast<void>(engine_->look());
  EXPECT_EQ(says_.move, nullptr) << "nobody has heard of the other rank";
  come();
  for (int looks = 0; looks < 100; ++looks) static_cast<void>(engine_->look());
  EXPECT_EQ(used(), before_ + bytes);
  says_.move->state = RankMove::State::done;
  look_until([&] { return used() == before_; });
  EXPECT_EQ(used(), before_);
  EXPECT_FALSE(says_.abandoned);
}
TEST_F(RankMoves, of_a_communicator_that_fails_are_abandoned_and_waited_for) {
  come();
  stop();
  static_cast<void>(engine_->look());
  EXPECT_TRUE(says_.abandoned);
  EXPECT_EQ(used(), before_ + bytes) << "something may still write there";
  says_.move->state = RankMove::State::done;
  look_until([&] { return used() == before_; });
  EXPECT_EQ(used(), before_);
}
TEST_F(RankMoves, that_do_not_end_have_their_memory_for_ever) {
  come();
  if (weir_test::under_address_sanitizer) {
    says_.move->state = RankMove::State::done;
    look_until([&] { return used() == before_; });
    GTEST_SKIP() << "memory that is lost on purpose is a leak to the sanitizer";
  }
  stop();
  look_until([&] { return !engine_->look().pending; });
  EXPECT_FALSE(engine_->look().pending) << "it is still waited for";
  EXPECT_EQ(used(), before_ + bytes);
}
