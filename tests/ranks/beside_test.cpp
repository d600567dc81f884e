// Short calls of a lane overlap: their messages are on their way before those before them are over, in one order on all ranks.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <memory>
#include <vector>

#include <gtest/gtest.h>

#include "core/ranks/engine.hpp"
#include "core/ranks/plan.hpp"
#include "core/ranks/ranked_state.hpp"

namespace {

using weir::detail::CallReference;
using weir::detail::CollectiveKind;
using weir::detail::CollectiveRequest;
using weir::detail::CommunicatorState;
using weir::detail::operand;
using weir::detail::RankArrival;
using weir::detail::RankedCall;
using weir::detail::RankEngine;
using weir::detail::Reduction;
using weir::detail::SharedLink;
using weir::detail::Transfer;

using Bytes = std::vector<std::byte>;

/// Keeps what is sent, and gives what a test says to who asked first.
class HeldLink final : public weir::detail::RankLink {
 public:
  struct Says {
    std::vector<Bytes> sent;
    struct Posted {
      Transfer* transfer;
      std::byte* data;
    };
    std::deque<Posted> posted;
  };
  explicit HeldLink(Says& says) : says_(says) {}
  std::string_view name() const override { return "held"; }
  void send(Transfer& transfer, int, std::uint32_t, const std::byte* data, std::size_t bytes) override {
    says_.sent.emplace_back(data, data + bytes);
    transfer.state = Transfer::State::done;
  }
  void receive(Transfer& transfer, int, std::uint32_t, std::byte* data, std::size_t) override {
    transfer.state = Transfer::State::under_way;
    says_.posted.push_back({&transfer, data});
  }
  void test(Transfer&) override {}
  bool cancel(Transfer& transfer) override {
    transfer.state = Transfer::State::idle;
    return true;
  }

 private:
  Says& says_;
};

class RankCallsOverlap : public ::testing::Test {
 protected:
  /// What is pending has the engine, which has it.
  void TearDown() override {
    engine_->stop(weir::Errc::rank_failed, "the test is over", nullptr, nullptr);
    look();
  }
  weir::Array<float> filled(std::size_t count, float value) {
    auto array = weir::full(stream_, count, value);
    stream_.synchronize();
    return array;
  }
  /// By rank 0 of two; its stream has come to it, unless `arrival` says so later.
  RankedCall& call(const CollectiveRequest& request, std::shared_ptr<RankArrival> arrival = come()) {
    auto* const made = new RankedCall(communicator_, ++calls_, 0, std::move(arrival), engine_);
    made->offer(0).emplace(request, weir::StreamRef(stream_), weir::SourceLocation{});
    made->set_way(RankedCall::Way::host, 0, 0);
    made->retain();
    kept_.emplace_back(made);
    engine_->add(CallReference(made), 0);
    return *made;
  }
  RankedCall& sum(const weir::Array<float>& x, const weir::Array<float>& y,
                  std::shared_ptr<RankArrival> arrival = come()) {
    return call({.kind = CollectiveKind::all_reduce,
                 .in = operand(weir::in(x)),
                 .out = operand(weir::out(y)),
                 .reduction = Reduction::plus},
                std::move(arrival));
  }
  static std::shared_ptr<RankArrival> come() {
    auto arrival = std::make_shared<RankArrival>();
    arrival->nanoseconds = 1;
    return arrival;
  }
  void look() {
    for (int i = 0; i < 3; ++i) static_cast<void>(engine_->look());
  }
  void give(const Bytes& message) {
    ASSERT_FALSE(says_.posted.empty());
    const auto posted = says_.posted.front();
    says_.posted.pop_front();
    std::copy(message.begin(), message.end(), posted.data);
    posted.transfer->bytes = message.size();
    posted.transfer->state = Transfer::State::done;
  }
  /// The other rank sends the same.
  void answer(std::size_t sent) { give(says_.sent.at(sent)); }
  std::size_t sent() const { return says_.sent.size(); }

  const weir::Device cpu_ = weir::device("cpu");
  const weir::Stream stream_{cpu_};
  HeldLink::Says says_;
  const std::shared_ptr<CommunicatorState> communicator_ =
      std::make_shared<CommunicatorState>(cpu_, 2, weir::CommunicatorOptions{.name = "held"}, weir::SourceLocation{});
  const std::shared_ptr<RankEngine> engine_ =
      std::make_shared<RankEngine>(std::make_shared<SharedLink>(std::make_unique<HeldLink>(says_)),
                                   RankEngine::Place{.members = {0, 1}, .rank = 0, .context = 0, .compare = false},
                                   std::weak_ptr<weir::detail::RankedState>());
  std::vector<CallReference> kept_;
  std::uint64_t calls_ = 0;
};

}  // namespace

TEST_F(RankCallsOverlap, and_end_in_their_order) {
  std::vector<weir::Array<float>> x, y;
  std::vector<RankedCall*> calls;
  for (int i = 0; i < 3; ++i) {
    x.push_back(filled(2, static_cast<float>(i)));
    y.push_back(filled(2, -1));
    calls.push_back(&sum(x.back(), y.back()));
  }
  look();
  EXPECT_EQ(sent(), 3u) << "each sends before the first has heard of the other rank";
  answer(0);
  look();
  EXPECT_FALSE(calls[0]->open());
  EXPECT_TRUE(calls[1]->open() && calls[2]->open());
  EXPECT_EQ(sent(), 3u) << "nothing is sent twice";
  answer(1);
  answer(2);
  look();
  EXPECT_FALSE(calls[1]->open() || calls[2]->open());
  for (int i = 0; i < 3; ++i)
    EXPECT_EQ(y[static_cast<std::size_t>(i)].to_host(), std::vector<float>(2, 2.0f * static_cast<float>(i)));
}

TEST_F(RankCallsOverlap, unless_one_uses_what_another_one_writes) {
  const auto x = filled(4, 1), y = filled(4, 1), z = filled(4, 1);
  sum(x, y);
  sum(y, z);  // reads what the first one writes
  look();
  EXPECT_EQ(sent(), 1u);
  answer(0);
  look();
  ASSERT_EQ(sent(), 2u);
  answer(1);
  look();
  EXPECT_EQ(z.to_host(), std::vector<float>(4, 4.0f));
  sum(x, y);
  sum(z, x);  // writes what the one before it reads
  look();
  EXPECT_EQ(sent(), 3u);
}

TEST_F(RankCallsOverlap, but_none_begins_before_its_stream_has_come_to_it) {
  const auto x = filled(2, 1), y = filled(2, 1), z = filled(2, 1);
  const auto late = std::make_shared<RankArrival>();
  sum(x, x);
  sum(y, y, late);
  sum(z, z);
  look();
  EXPECT_EQ(sent(), 1u);
  late->nanoseconds = 1;
  look();
  EXPECT_EQ(sent(), 3u);
}

TEST_F(RankCallsOverlap, and_none_passes_a_long_message_whose_head_has_not_come) {
  constexpr std::size_t many = 100'000;
  const auto x = filled(many, 0), y = filled(2, 1);
  RankedCall& first = call({.kind = CollectiveKind::broadcast, .out = operand(weir::inout(x)), .peer = 1});
  sum(y, y);
  look();
  EXPECT_EQ(sent(), 0u) << "what follows the head would come before what the sum asks for";
  const std::uint64_t head[3] = {weir::detail::fingerprint_of(*first.offer(0)), 1, many * sizeof(float)};
  const auto* const bytes = reinterpret_cast<const std::byte*>(head);
  give(Bytes(bytes, bytes + sizeof head));
  look();
  EXPECT_EQ(sent(), 1u);
  EXPECT_TRUE(first.open());
  give(Bytes(many * sizeof(float)));
  answer(0);
  look();
  EXPECT_FALSE(first.open());
  EXPECT_EQ(y.to_host(), std::vector<float>(2, 2.0f));
}
