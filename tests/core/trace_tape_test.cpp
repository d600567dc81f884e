// What a session was told comes back as it was, however it is kept.
#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <random>
#include <vector>

#include "trace/tape.hpp"

namespace {

using weir::trace::Lane;
using weir::trace::Tape;
using weir::trace::TapeRecord;
using Kind = TapeRecord::Kind;

bool same(const TapeRecord& x, const TapeRecord& y) {
  return static_cast<const weir::trace::TapeShape&>(x) == y && x.id == y.id && x.begin == y.begin && x.end == y.end &&
         x.b == y.b;
}

void tell(Tape& tape, const TapeRecord& record) {
  tape.writer().next() = record;
  tape.writer().add();
}

std::vector<TapeRecord> all_of(const Tape& tape) {
  const Tape::Contents contents = tape.read();
  EXPECT_EQ(contents.threads.size(), 1u);
  return contents.threads.empty() ? std::vector<TapeRecord>() : contents.threads[0];
}

TapeRecord ran(std::uint64_t id, std::int64_t begin, std::int64_t lasted) {
  TapeRecord record;
  record.kind = Kind::ran;
  record.stream = 7;
  record.id = id;
  record.begin = begin;
  record.end = begin + lasted;
  return record;
}

TEST(TraceTape, has_records_with_every_odd_field) {
  constexpr std::int64_t large = std::int64_t{1} << 40;
  std::vector<TapeRecord> told;
  const auto like_the_last = [&](auto change) {
    TapeRecord record = told.back();
    ++record.id;
    change(record);
    told.push_back(record);
  };
  told.push_back(ran(1, 100, 10));
  like_the_last([](TapeRecord& one) { one.end = one.begin + std::numeric_limits<std::uint32_t>::max(); });
  like_the_last([](TapeRecord& one) { one.end = one.begin + large; });
  like_the_last([](TapeRecord& one) { one.end = one.begin - 1; });  // clocks of devices may say so
  like_the_last([](TapeRecord& one) { one.end = one.begin = -large; });
  like_the_last([](TapeRecord& one) { one.b = 3; });
  like_the_last([](TapeRecord& one) { one.b = 4; });
  TapeRecord command;
  command.id = 10;
  command.begin = large;
  command.line = 12;
  command.b = 1000;
  told.push_back(command);
  like_the_last([](TapeRecord& one) { one.b = std::numeric_limits<std::uint32_t>::max(); });
  like_the_last([](TapeRecord& one) { one.b = std::uint64_t{1} << 32; });
  like_the_last([](TapeRecord& one) { one.b = std::numeric_limits<std::uint64_t>::max(); });
  like_the_last([](TapeRecord& one) { one.end = 5; });
  like_the_last([](TapeRecord& one) { one.end = 6; });
  like_the_last([](TapeRecord& one) { one.b = 7; });
  for (const auto change : {+[](TapeRecord& one) { ++one.stream; }, +[](TapeRecord& one) { ++one.a; },
                            +[](TapeRecord& one) { one.name = 1; }, +[](TapeRecord& one) { one.file = 2; },
                            +[](TapeRecord& one) { one.arguments = 3; }, +[](TapeRecord& one) { ++one.line; },
                            +[](TapeRecord& one) { ++one.thread; }, +[](TapeRecord& one) { one.lane = Lane::fill; },
                            +[](TapeRecord& one) { one.what = 4; }, +[](TapeRecord& one) { one.flag = true; }}) {
    like_the_last(change);
    like_the_last([](TapeRecord&) {});
  }
  TapeRecord node = ran(50, 5, 6);
  node.kind = Kind::node;
  for (const std::uint64_t number : {std::uint64_t{0}, std::uint64_t{3}, std::uint64_t{65'535}, std::uint64_t{65'536},
                                     std::uint64_t{65'537}, std::uint64_t{1}}) {
    node.a = number;
    told.push_back(node);
  }
  Tape tape(1 << 20);
  for (const TapeRecord& record : told) tell(tape, record);
  const std::vector<TapeRecord> kept = all_of(tape);
  ASSERT_EQ(kept.size(), told.size());
  for (std::size_t i = 0; i < told.size(); ++i) EXPECT_TRUE(same(kept[i], told[i])) << i;
}

TEST(TraceTape, has_random_records_of_few_and_of_many_shapes) {
  std::mt19937_64 random(1);
  for (const std::uint64_t lines : {2, 40, 5000}) {
    std::vector<TapeRecord> told;
    for (std::uint64_t i = 0; i < 20'000; ++i) {
      TapeRecord record;
      record.id = i;
      record.begin = static_cast<std::int64_t>(1000 * i);
      record.line = static_cast<std::uint32_t>(random() % lines);
      record.stream = record.line % 8;
      record.name = record.line;
      record.kind = std::vector{Kind::command, Kind::ran, Kind::behind, Kind::node}[random() % 4];
      if (record.kind == Kind::ran || record.kind == Kind::node) record.end = record.begin + random() % 1000;
      if (record.kind == Kind::node) record.a = random() % 100;
      if (record.kind == Kind::command) record.b = random() % 3;
      told.push_back(record);
    }
    Tape tape(8 << 20);
    for (const TapeRecord& record : told) tell(tape, record);
    const std::vector<TapeRecord> kept = all_of(tape);
    ASSERT_EQ(kept.size(), told.size());
    for (std::size_t i = 0; i < told.size(); ++i) ASSERT_TRUE(same(kept[i], told[i])) << i << " of " << lines;
  }
}

// A program that makes the same calls again and again: in this much memory.
TEST(TraceTape, keeps_what_repeats_in_24_bytes_each) {
  constexpr std::size_t limit = 1 << 20, count = 200'000;
  Tape tape(limit);
  for (std::size_t i = 0; i < count; ++i) tell(tape, ran(i, static_cast<std::int64_t>(i), 1));
  const std::vector<TapeRecord> kept = all_of(tape);
  EXPECT_GE(kept.size(), limit / 26);
  EXPECT_LE(kept.size(), limit / 24);
  for (std::size_t i = 0; i < kept.size(); ++i) {
    const std::size_t id = count - kept.size() + i;
    ASSERT_TRUE(same(kept[i], ran(id, static_cast<std::int64_t>(id), 1))) << i;
  }
}

}  // namespace
