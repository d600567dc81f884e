// What a recorder knows of launches that come again: the uses of an earlier one, as long as they would be the same.
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include <weir/kernel.hpp>

#include "recording/memory_map.hpp"
#include "recording/repeats.hpp"

namespace {

using weir::MemoryKind;
using weir::Region;
using weir::recorded::MemoryMap;
using weir::recorded::none;
using weir::recorded::Repeats;
using weir::recorded::Use;

class RecordedRepeats : public testing::Test {
 protected:
  RecordedRepeats() {
    command_.where = {"file", 1};
    command_.thread = 1;
    command_.stream = 1;
    command_.op = weir::Launch{&kernel_, nullptr, weir::Shape(1)};
  }
  /// A launch that uses these is kept at `place`.
  void note(const std::vector<Region>& regions, std::uint32_t place, bool again = true) {
    regions_ = regions;
    command_.uses = regions_;
    std::vector<Use> uses;
    for (const Region& region : regions_) {
      memory_.find(region.buffer, reinterpret_cast<std::uintptr_t>(region.begin), region.extent_bytes(),
                   MemoryKind::device, 0, uses.emplace_back());
    }
    repeats_.note(command_, {}, uses, place, memory_, again);
  }
  std::uint32_t found() { return repeats_.find(command_, memory_); }
  bool again() { return repeats_.again(command_, memory_) != nullptr; }
  Region region(std::size_t offset, weir::BufferId buffer) {
    return {bytes_ + offset, 64, 1, 0, buffer, weir::Access::read};
  }

  alignas(64) std::byte bytes_[4096];
  weir::Kernel kernel_{};
  weir::Kernel other_kernel_{};
  std::vector<Region> regions_;
  weir::Command command_;
  MemoryMap memory_;
  Repeats repeats_;
};

TEST_F(RecordedRepeats, are_of_the_same_line_thread_stream_and_kernel) {
  memory_.add(7, bytes_, 256, 0);
  note({region(0, 7), region(64, 7)}, 5);
  EXPECT_TRUE(again());
  EXPECT_EQ(found(), 5u);
  const weir::Command as_it_was = command_;
  command_.where = {"file", 2};
  EXPECT_FALSE(again());
  command_ = as_it_was;
  command_.thread = 2;
  EXPECT_FALSE(again());
  command_ = as_it_was;
  command_.stream = 2;
  EXPECT_FALSE(again());
  command_ = as_it_was;
  std::get<weir::Launch>(command_.op).kernel = &other_kernel_;
  EXPECT_FALSE(again());
  command_ = as_it_was;
  std::get<weir::Launch>(command_.op).name = "so";
  EXPECT_FALSE(again());
  command_ = as_it_was;
  EXPECT_TRUE(again());
}

TEST_F(RecordedRepeats, have_the_same_uses_to_the_byte) {
  memory_.add(7, bytes_, 1024, 0);
  note({region(0, 7), region(64, 7)}, 5);
  const std::vector<Region> as_they_were = regions_;
  const auto differs = [&](auto change) {
    regions_ = as_they_were;
    change(regions_[0]);
    return found() == none && !again();
  };
  EXPECT_TRUE(differs([&](Region& one) { one.begin = bytes_ + 128; }));
  EXPECT_TRUE(differs([](Region& one) { one.row_bytes = 32; }));
  EXPECT_TRUE(differs([](Region& one) { one.rows = 2; }));
  EXPECT_TRUE(differs([](Region& one) { one.pitch = 128; }));
  EXPECT_TRUE(differs([](Region& one) { one.buffer = 8; }));
  EXPECT_TRUE(differs([](Region& one) { one.access = weir::Access::write; }));
  EXPECT_TRUE(differs([](Region& one) {
    one.outer_count = 1;
    one.outer[0] = {2, 256};
  }));
  regions_ = as_they_were;
  EXPECT_TRUE(again());
  command_.uses = command_.uses.first(1);
  EXPECT_EQ(found(), none);
}

TEST_F(RecordedRepeats, end_with_the_arrays_that_they_use) {
  memory_.add(7, bytes_, 256, 0);
  memory_.add(8, bytes_ + 256, 256, 1);
  note({region(0, 7)}, 5);
  memory_.remove(8, bytes_ + 256);
  EXPECT_EQ(found(), 5u);
  memory_.remove(7, bytes_);
  EXPECT_EQ(found(), none);
}

TEST_F(RecordedRepeats, of_arrays_that_were_not_seen_to_be_made_last_until_their_ranges_may_change) {
  note({region(0, 7)}, 5);
  EXPECT_EQ(found(), 5u);
  memory_.pinned(bytes_, 1024, none, 0);  // all of it is the range now
  EXPECT_EQ(found(), none);
  note({region(0, 7)}, 6);
  EXPECT_EQ(found(), 6u);
  memory_.unpinned(bytes_);
  EXPECT_EQ(found(), none);
  note({region(0, 7)}, 7);
  EXPECT_EQ(found(), 7u);
  memory_.remove(7, bytes_);
  EXPECT_EQ(found(), none);
}

TEST_F(RecordedRepeats, of_memory_without_an_array_are_none) {
  note({region(0, 0)}, 5);
  EXPECT_EQ(found(), none);
}

TEST_F(RecordedRepeats, with_costs_of_their_own_are_found_and_not_kept_as_they_were) {
  memory_.add(7, bytes_, 256, 0);
  note({region(0, 7)}, 5, false);
  EXPECT_EQ(found(), 5u);
  EXPECT_FALSE(again());
}

TEST_F(RecordedRepeats, of_kernels_that_use_no_memory_are_known) {
  note({}, 5);
  EXPECT_EQ(found(), 5u);
  EXPECT_TRUE(again());
}

}  // namespace
