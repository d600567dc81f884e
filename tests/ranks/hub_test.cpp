// Rank 0's process, asking all ranks why they wait, and saying why a communicator fails.
#include "ranks/hub.hpp"

#include <chrono>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "ranks/message.hpp"

namespace {

using weir::detail::ControlMessage;
using weir::detail::Hub;
using weir::detail::Inquiry;
using weir::detail::RankClock;
using Type = ControlMessage::Type;

}  // namespace

TEST(ControlHub, asks_all_ranks_before_it_says_who_did_not_come) {
  std::vector<std::pair<int, ControlMessage>> told;
  Hub hub({"a", "b", "c"}, [&](int rank, const ControlMessage& message) { told.emplace_back(rank, message); });
  hub.take(0, {Type::report, {0, static_cast<std::uint64_t>(Inquiry::late), 1, 4096}, {"nobody came within 3 s of "}});
  ASSERT_EQ(told.size(), 3u);
  for (const auto& [rank, message] : told) EXPECT_EQ(message.type, Type::question);
  const std::uint64_t inquest = told[0].second.numbers[0];
  told.clear();
  hub.take(0, {Type::answer, {inquest, 1, 2, 77}, {"barrier", "cpu): barrier"}});
  hub.take(2, {Type::answer, {inquest, 1, 1, 77}, {"barrier", "cpu): barrier"}});
  EXPECT_TRUE(told.empty());
  hub.take(1, {Type::answer, {inquest, 0, 0, 0}, {"", "cpu): has called nothing"}});
  ASSERT_EQ(told.size(), 3u);
  EXPECT_EQ(told[0].second.type, Type::verdict);
  EXPECT_EQ(told[0].second.numbers[1], static_cast<std::uint64_t>(weir::Errc::collective_timeout));
  EXPECT_EQ(
      told[0].second.texts.at(0),
      "nobody came within 3 s of those who are missing: rank 1 (it did not call), rank 2 (its stream did not come "
      "to it)\n  rank 0 (a, cpu): barrier\n  rank 1 (b, cpu): has called nothing\n  rank 2 (c, cpu): barrier");
}

TEST(ControlHub, tells_the_others_that_a_process_is_gone) {
  std::vector<std::pair<int, ControlMessage>> told;
  Hub hub({"a", "b", "c"}, [&](int rank, const ControlMessage& message) { told.emplace_back(rank, message); });
  hub.died(1, "it was killed");
  ASSERT_EQ(told.size(), 2u);  // they are asked, and it is not
  const std::uint64_t inquest = told[0].second.numbers[0];
  told.clear();
  for (const int rank : {0, 2}) {
    hub.take(rank, {Type::answer, {inquest, 1, 2, 77}, {"barrier", "cpu): barrier"}});
  }
  ASSERT_EQ(told.size(), 2u);
  for (const auto& [rank, message] : told) {
    EXPECT_NE(rank, 1);
    EXPECT_EQ(message.type, Type::verdict);
    EXPECT_EQ(message.numbers[1], static_cast<std::uint64_t>(weir::Errc::rank_failed));
    EXPECT_NE(message.texts.at(0).find("rank 1 (b) is gone: it was killed"), std::string::npos) << message.texts.at(0);
  }
}

TEST(ControlHub, tells_calls_that_differ_from_calls_that_are_late) {
  std::vector<ControlMessage> told;
  Hub hub({"a", "b"}, [&](int, const ControlMessage& message) { told.push_back(message); });
  const auto ask = [&](std::uint64_t fingerprint) {
    told.clear();
    hub.take(0, {Type::report, {0, static_cast<std::uint64_t>(Inquiry::stuck), 1, 4096}, {""}});
    const std::uint64_t inquest = told.at(0).numbers[0];
    told.clear();
    hub.take(0, {Type::answer, {inquest, 1, 2, 77}, {"barrier", "cpu): barrier"}});
    hub.take(1, {Type::answer, {inquest, 1, 2, fingerprint}, {"broadcast", "cpu): broadcast"}});
  };
  ask(77);
  EXPECT_TRUE(told.empty());  // they only wait
  ask(78);
  ASSERT_EQ(told.size(), 2u);
  EXPECT_EQ(told[0].numbers[1], static_cast<std::uint64_t>(weir::Errc::collective_mismatch));
  EXPECT_NE(told[0].texts.at(0).find("rank 0 calls barrier, rank 1 broadcast"), std::string::npos);
}

TEST(ControlHub, asks_about_each_call_in_which_ranks_wait_at_the_same_time) {
  std::vector<ControlMessage> told;
  Hub hub({"a", "b"}, [&](int, const ControlMessage& message) { told.push_back(message); });
  const auto report = [&](int rank, std::uint64_t call) {
    told.clear();
    hub.take(rank, {Type::report, {0, static_cast<std::uint64_t>(Inquiry::stuck), call, 4096}, {""}});
  };
  report(0, 9);
  ASSERT_EQ(told.size(), 2u);
  const std::uint64_t of_9 = told[0].numbers[0];
  report(1, 9);
  EXPECT_TRUE(told.empty());  // they are asked already
  report(1, 7);
  ASSERT_EQ(told.size(), 2u);
  EXPECT_EQ(told[0].numbers.at(2), 7u);
  const std::uint64_t of_7 = told[0].numbers[0];
  told.clear();
  hub.take(0, {Type::answer, {of_9, 9, 2, 77}, {"barrier", "cpu): barrier"}});
  hub.take(0, {Type::answer, {of_7, 9, 2, 78}, {"broadcast from 0", "cpu): barrier"}});
  hub.take(1, {Type::answer, {of_9, 7, 0, 0}, {"", "cpu): broadcast from 1"}});
  EXPECT_TRUE(told.empty());  // it is late, for all that this tells
  hub.take(1, {Type::answer, {of_7, 7, 2, 79}, {"broadcast from 1", "cpu): broadcast from 1"}});
  ASSERT_EQ(told.size(), 2u);
  EXPECT_EQ(told[0].numbers[1], static_cast<std::uint64_t>(weir::Errc::collective_mismatch));
  EXPECT_NE(told[0].texts.at(0).find("rank 0 calls broadcast from 0, rank 1 broadcast from 1"), std::string::npos)
      << told[0].texts.at(0);
}

TEST(ControlHub, says_once_that_a_communicator_failed) {
  std::vector<ControlMessage> told;
  Hub hub({"a", "b"}, [&](int, const ControlMessage& message) { told.push_back(message); });
  std::vector<std::uint64_t> inquests;
  for (const std::uint64_t call : {7, 9}) {
    told.clear();
    hub.take(0, {Type::report, {0, static_cast<std::uint64_t>(Inquiry::stuck), call, 4096}, {""}});
    inquests.push_back(told.at(0).numbers[0]);
  }
  told.clear();
  for (const std::uint64_t inquest : inquests) {
    hub.take(0, {Type::answer, {inquest, 9, 2, 77}, {"barrier", "cpu): barrier"}});
    hub.take(1, {Type::answer, {inquest, 9, 2, 78}, {"broadcast", "cpu): broadcast"}});
  }
  EXPECT_EQ(told.size(), 2u);
}

TEST(ControlHub, asks_again_where_something_went_wrong_while_it_asked_who_waits) {
  std::vector<ControlMessage> told;
  Hub hub({"a", "b"}, [&](int, const ControlMessage& message) { told.push_back(message); });
  hub.take(0, {Type::report, {0, static_cast<std::uint64_t>(Inquiry::stuck), 1, 4096}, {""}});
  const std::uint64_t first = told.at(0).numbers[0];
  hub.take(0, {Type::answer, {first, 1, 2, 77}, {"barrier", "cpu): barrier"}});
  told.clear();
  hub.take(0, {Type::report, {0, static_cast<std::uint64_t>(Inquiry::mismatch), 2, 4096}, {"they differ"}});
  ASSERT_EQ(told.size(), 2u);
  EXPECT_EQ(told[0].type, Type::question);
  EXPECT_EQ(told[0].numbers.at(2), 2u);
  const std::uint64_t second = told[0].numbers[0];
  told.clear();
  hub.take(1, {Type::answer, {first, 1, 2, 77}, {"barrier", "cpu): barrier"}});  // too late
  hub.take(1, {Type::answer, {second, 2, 2, 78}, {"broadcast", "cpu): broadcast"}});
  EXPECT_TRUE(told.empty());
  hub.take(0, {Type::answer, {second, 2, 2, 79}, {"all_reduce", "cpu): all_reduce"}});
  ASSERT_EQ(told.size(), 2u);
  EXPECT_EQ(told[0].texts.at(0),
            "rank 0 calls all_reduce, rank 1 broadcast\n  rank 0 (a, cpu): all_reduce\n  rank 1 (b, cpu): broadcast");
}

TEST(ControlHub, tells_of_no_leave_while_it_asks_why_a_communicator_fails) {
  std::vector<ControlMessage> told;
  Hub hub({"a", "b"}, [&](int, const ControlMessage& message) { told.push_back(message); });
  hub.take(1, {Type::report, {0, static_cast<std::uint64_t>(Inquiry::aborted), 0, 4096, 0}, {"rank 1 aborted it"}});
  const std::uint64_t inquest = told.at(0).numbers[0];
  told.clear();
  hub.take(1, {Type::left, {0, 0, 3}, {"cpu): barrier"}});
  EXPECT_TRUE(told.empty());
  hub.take(0, {Type::answer, {inquest, 1, 2, 77}, {"", "cpu): all_reduce"}});
  ASSERT_EQ(told.size(), 2u);
  EXPECT_EQ(told[0].type, Type::verdict);
  EXPECT_EQ(told[0].texts.at(0),
            "rank 1 aborted it\n  rank 0 (a, cpu): all_reduce\n  rank 1 (b, cpu): barrier; its communicator is gone");
}

TEST(ControlHub, knows_the_last_call_of_who_is_gone_from_its_heartbeats) {
  std::vector<ControlMessage> told;
  Hub hub({"a", "b"}, [&](int, const ControlMessage& message) { told.push_back(message); });
  EXPECT_TRUE(hub.take(1, {Type::alive, {0}, {"cpu): barrier"}}));
  EXPECT_TRUE(hub.take(1, {Type::alive, {0, 77}, {"cpu): all_reduce", "of no communicator"}}));
  hub.died(1, "it was killed");
  hub.take(0, {Type::answer, {told.at(0).numbers.at(0), 1, 0, 0}, {"", "cpu): all_reduce"}});
  EXPECT_EQ(told.back().texts.at(0),
            "rank 1 (b) is gone: it was killed\n  rank 0 (a, cpu): all_reduce\n"
            "  rank 1 (b, cpu): all_reduce, when it was last heard of; it is gone");
}

TEST(ControlHub, ends_a_split_that_a_rank_has_left) {
  for (const bool leaves_first : {true, false}) {
    std::vector<ControlMessage> told;
    Hub hub({"a", "b"}, [&](int, const ControlMessage& message) {
      if (message.type != Type::left) told.push_back(message);
    });
    const ControlMessage left{Type::left, {0, 0, 0}, {"cpu): barrier"}};
    if (leaves_first) hub.take(1, left);
    hub.take(0, {Type::split, {0, 0, 0, 0}});
    if (!leaves_first) hub.take(1, left);
    ASSERT_EQ(told.size(), 2u);
    EXPECT_EQ(told[0].type, Type::question);
    hub.take(0, {Type::answer, {told[0].numbers[0], 0, 0, 0}, {"", "cpu): barrier"}});
    ASSERT_EQ(told.size(), 4u);
    EXPECT_EQ(told[2].type, Type::verdict);
    EXPECT_EQ(told[2].numbers[1], static_cast<std::uint64_t>(weir::Errc::rank_failed));
    EXPECT_NE(told[2].texts.at(0).find("rank 1 was destroyed before it called split()"), std::string::npos);
  }
}

// A rank that ended says more by what it said before than by its end, whoever is heard first.
TEST(ControlHub, believes_a_rank_that_says_why_before_those_who_saw_it_end) {
  for (const bool aborted : {true, false}) {
    std::vector<ControlMessage> told;
    Hub hub({"a", "b"}, [&](int, const ControlMessage& message) {
      if (message.type == Type::verdict) told.push_back(message);
    });
    hub.take(0, {Type::report, {0, static_cast<std::uint64_t>(Inquiry::died), 1, 1, 0}, {"rank 1 is gone"}});
    if (aborted)
      hub.take(1, {Type::report, {0, static_cast<std::uint64_t>(Inquiry::aborted), 0, 4096, 0}, {"rank 1 aborted"}});
    hub.take(1, {Type::left, {0, 0, 0}, {"cpu): barrier"}});
    hub.look(RankClock::now() + std::chrono::seconds(10));
    ASSERT_EQ(told.size(), 2u);
    EXPECT_EQ(told[0].texts.at(0).find(aborted ? "rank 1 aborted" : "the communicator of rank 1 was destroyed"), 0u)
        << told[0].texts.at(0);
  }
}

TEST(ControlHub, names_the_peer_of_half_a_pair_that_nobody_came_to) {
  std::vector<ControlMessage> told;
  Hub hub({"a", "b"}, [&](int, const ControlMessage& message) { told.push_back(message); });
  hub.take(0, {Type::report, {0, static_cast<std::uint64_t>(Inquiry::late), 0, 1, 0}, {"nobody came within 3 s of "}});
  const std::uint64_t inquest = told.at(0).numbers[0];
  told.clear();
  hub.take(0, {Type::answer, {inquest, 1, 0, 0}, {"", "cpu): send"}});
  hub.take(1, {Type::answer, {inquest, 1, 0, 0}, {"", "cpu): send"}});
  ASSERT_EQ(told.size(), 2u);
  EXPECT_NE(told[0].texts.at(0).find("nobody came within 3 s of those who are missing: rank 1 (it did not come"),
            std::string::npos)
      << told[0].texts.at(0);
}

TEST(ControlHub, asks_for_the_send_that_did_not_fit) {
  std::vector<ControlMessage> told;
  Hub hub({"a", "b"}, [&](int, const ControlMessage& message) { told.push_back(message); });
  hub.take(1, {Type::report, {0, static_cast<std::uint64_t>(Inquiry::mismatch), 0, 0, 55}, {"rank 1 calls receive"}});
  ASSERT_EQ(told.at(0).numbers.at(3), 55u);
  const std::uint64_t inquest = told.at(0).numbers[0];
  told.clear();
  hub.take(0, {Type::answer, {inquest, 1, 0, 0}, {"send", "cpu): barrier"}});
  hub.take(1, {Type::answer, {inquest, 1, 0, 0}, {"", "cpu): receive"}});
  ASSERT_EQ(told.size(), 2u);
  EXPECT_EQ(told[0].numbers[1], static_cast<std::uint64_t>(weir::Errc::collective_mismatch));
  EXPECT_EQ(told[0].texts.at(0),
            "rank 1 calls receive; that call is send\n  rank 0 (a, cpu): barrier; before that, send\n"
            "  rank 1 (b, cpu): receive");
}
