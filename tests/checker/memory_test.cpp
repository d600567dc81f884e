// The checker's memory: ranges of the host that meet, arrays that DLPack takes elsewhere or brings, the words for new arrays,
// streams that fail.
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include <weir/check.hpp>
#include <weir/dlpack.hpp>
#include <weir/weir.hpp>

#include "interop/producer.hpp"

namespace {

using weir::Checker;
using weir::CheckMode;
using weir::FindingKind;
using weir::Severity;

struct Touch {
  WEIR_KERNEL void operator()(std::size_t, weir::View<float>) const {}
};
struct Look {
  WEIR_KERNEL void operator()(std::size_t, weir::View<const float>) const {}
};
struct Throw {
  void operator()(std::size_t, weir::View<float>) const { throw std::runtime_error("on purpose"); }
};

/// Two streams that only waits order.
struct Pair {
  weir::Device device = weir::device("cpu");
  weir::Stream own{device, {.blocking = false, .name = "own"}};
  weir::Stream compute{device, {.blocking = false, .name = "compute"}};
  ~Pair() {
    own.synchronize();
    compute.synchronize();
  }
};

// What a stream still uses is the other half, which stays.
TEST(CheckedMemory, of_which_a_part_is_gone_is_used_on) {
  std::vector<float> v(100);
  const auto call = [&](const weir::Stream& stream, std::size_t from, std::size_t count) {
    weir::host_call(
        stream, [] {}, weir::inout(weir::View<float>(v.data() + from, count)));
  };
  Pair streams;
  Checker checker({.mode = CheckMode::collect});
  call(streams.own, 0, 100);
  streams.own.synchronize();
  call(streams.own, 50, 50);
  weir::host_gone(v.data(), 50 * sizeof(float));
  EXPECT_EQ(checker.findings().size(), 0u) << to_text(checker.report());
  call(streams.compute, 40, 20);
  ASSERT_EQ(checker.findings().size(), 1u) << to_text(checker.report());
  EXPECT_EQ(checker.findings().at(0).bytes, (std::vector<std::pair<std::uint64_t, std::uint64_t>>{{200, 240}}));
  weir::host_gone(v.data() + 40, 10 * sizeof(float));
  ASSERT_EQ(checker.findings().size(), 2u) << to_text(checker.report());
  EXPECT_EQ(checker.findings().at(1).kind, FindingKind::use_after_free);
  EXPECT_EQ(checker.findings().at(1).severity, Severity::error);
  EXPECT_EQ(checker.findings().at(1).bytes, (std::vector<std::pair<std::uint64_t, std::uint64_t>>{{160, 200}}));
}

TEST(CheckedMemory, of_ranges_that_meet_keeps_what_touched_each) {
  std::vector<float> v(100);
  Pair streams;
  Checker checker({.mode = CheckMode::collect});
  const auto call = [&](const weir::Stream& stream, std::size_t from, std::size_t count) {
    weir::host_call(
        stream, [] {}, weir::inout(weir::View<float>(v.data() + from, count)));
  };
  call(streams.own, 0, 10);
  call(streams.compute, 50, 10);
  EXPECT_EQ(checker.findings().size(), 0u);
  // They are one range from here on: who reads all of it races with the second, and not with its own stream's.
  weir::host_call(
      streams.own, [] {}, weir::in(weir::View<const float>(v.data(), 100)));
  ASSERT_EQ(checker.findings().size(), 1u);
  const weir::Finding found = checker.findings().at(0);
  EXPECT_EQ(found.kind, FindingKind::read_after_write);
  EXPECT_EQ(found.bytes, (std::vector<std::pair<std::uint64_t, std::uint64_t>>{{200, 240}}));
  ASSERT_TRUE(found.first);
  EXPECT_EQ(found.first->stream, "compute");
  call(streams.compute, 0, 10);
  EXPECT_EQ(checker.findings().size(), 2u) << "the first range's history is there, too";
}

// Which nobody copied or filled: so nothing but the pin says what it is.
TEST(CheckedMemory, that_is_pinned_in_place_has_its_bounds_and_its_line) {
  std::vector<float> v(100), later(100);
  const std::uint32_t line = __LINE__ + 1;
  weir::pin(v.data(), v.size() * sizeof(float));
  Pair streams;
  Checker checker({.mode = CheckMode::collect});
  const auto race = [&](std::vector<float>& memory) {
    for (const weir::Stream* stream : {&streams.own, &streams.compute}) {
      weir::host_call(
          *stream, [] {}, weir::inout(weir::View<float>(memory.data() + 50, 10)));
    }
    return checker.findings().back();
  };
  const weir::Finding found = race(v);
  EXPECT_EQ(checker.findings().size(), 1u) << to_text(checker.report());
  EXPECT_EQ(found.severity, Severity::error);
  EXPECT_EQ(found.bytes, (std::vector<std::pair<std::uint64_t, std::uint64_t>>{{200, 240}}));
  ASSERT_TRUE(found.buffer);
  EXPECT_EQ(found.buffer->name, "memory pinned at memory_test.cpp:" + std::to_string(line));
  EXPECT_EQ(found.buffer->bytes, 400u);
  EXPECT_EQ(found.buffer->line, line);

  weir::unpin(v.data());
  EXPECT_EQ(race(v).severity, Severity::warning) << "whose end nobody announces any more";
  EXPECT_EQ(race(later).severity, Severity::warning);
  weir::synchronize();
  {
    const weir::ScopedPin pin(later);
    const weir::Finding again = race(later);
    EXPECT_EQ(again.severity, Severity::error);
    EXPECT_EQ(again.buffer->name, "memory pinned at memory_test.cpp:" + std::to_string(__LINE__ - 3));
    EXPECT_EQ(again.buffer->bytes, 400u);
  }
  EXPECT_EQ(checker.findings().size(), 3u) << "the warnings are one: " << to_text(checker.report());
}

// Another thread may be given the memory, by an order that nobody sees; and who pins it for each use takes no more for that.
TEST(CheckedMemory, that_is_pinned_for_each_use_is_new_each_time_and_takes_no_more) {
  std::vector<float> v(100);
  Pair streams;
  Checker checker({.mode = CheckMode::collect, .host_order = weir::HostOrder::declared});
  const auto use = [&](const weir::Stream& stream) {
    const weir::ScopedPin pin(v);
    weir::launch(stream, 100, Touch{}, weir::inout(weir::View<float>(v.data(), 100)));
  };
  use(streams.own);
  std::thread([&] { use(streams.compute); }).join();
  EXPECT_EQ(checker.errors(), 0u) << to_text(checker.report());
  use(streams.own);
  const std::size_t bytes = checker.statistics().bytes;
  for (int turn = 0; turn < 1000; ++turn) use(streams.own);
  EXPECT_LT(checker.statistics().bytes, bytes + 4096);
}

// The checker learns of them as they are used: an array by its uses, and what raw views of it touch, whichever comes first.
TEST(CheckedMemory, of_arrays_that_are_older_is_theirs_through_raw_views_too) {
  Pair streams;
  auto a = weir::zeros<float>(streams.own, 100), b = weir::zeros<float>(streams.own, 100);
  const weir::View<float> raw_a = a.view(), raw_b = b.view();
  weir::synchronize();
  Checker checker({.mode = CheckMode::collect});
  weir::launch(streams.own, 100, Touch{}, weir::inout(a));
  weir::launch(streams.compute, 10, Look{}, weir::in(weir::View<const float>(raw_a.data() + 20, 10)));
  ASSERT_EQ(checker.findings().size(), 1u) << to_text(checker.report());
  EXPECT_EQ(checker.findings().at(0).severity, Severity::error);
  EXPECT_EQ(checker.findings().at(0).bytes, (std::vector<std::pair<std::uint64_t, std::uint64_t>>{{80, 120}}));
  weir::launch(streams.own, 10, Touch{}, weir::inout(weir::View<float>(raw_b.data() + 50, 10)));
  weir::launch(streams.compute, 20, Look{}, weir::in(b.slice(0, 20)));
  EXPECT_EQ(checker.findings().size(), 1u) << "other elements";
  weir::launch(streams.compute, 100, Look{}, weir::in(b));
  ASSERT_EQ(checker.findings().size(), 2u) << to_text(checker.report());
  EXPECT_EQ(checker.findings().at(1).bytes, (std::vector<std::pair<std::uint64_t, std::uint64_t>>{{200, 240}}));
}

// What has their addresses next is other memory, of which nothing is known.
TEST(CheckedMemory, of_arrays_that_are_older_is_theirs_until_they_are_gone) {
  Pair streams;
  std::optional<weir::Array<float>> a = weir::zeros<float>(streams.own, 100);
  const weir::View<float> raw = a->view();
  weir::synchronize();
  Checker checker({.mode = CheckMode::collect});
  weir::launch(streams.own, 100, Touch{}, weir::inout(*a));
  a.reset();
  weir::launch(streams.compute, 10, Touch{}, weir::inout(weir::View<float>(raw.data() + 20, 10)));
  EXPECT_EQ(checker.findings().size(), 0u) << to_text(checker.report());
}

// A fill of pageable memory returns when it is done, and one of pinned memory does not: so nothing orders what follows.
TEST(CheckedMemory, that_is_pinned_is_known_as_such_from_its_first_fill_on) {
  Pair streams;
  Checker checker({.mode = CheckMode::collect});
  auto pinned = weir::zeros<float>(weir::pinned, 16);
  weir::fill(streams.own, pinned, 2.0f);
  weir::launch(streams.compute, 16, Touch{}, weir::inout(pinned));
  EXPECT_EQ(checker.errors(), 1u);
  auto pageable = weir::zeros<float>(weir::host, 16);
  weir::fill(streams.own, pageable, 2.0f);
  weir::fill(streams.compute, pageable, 3.0f);
  EXPECT_EQ(checker.errors(), 1u) << to_text(checker.report());
}

/// Within its line.
std::size_t column_of(const std::string& text, const char* part) {
  const std::size_t at = text.find(part);
  return at - text.rfind('\n', at);
}

TEST(CheckedMemory, has_the_words_of_the_call_that_made_and_filled_it) {
  Pair streams;
  Checker checker({.mode = CheckMode::collect});
  auto a = weir::zeros<float>(streams.own, 16);
  a.set_name("a");
  weir::launch(streams.compute, 16, Touch{}, weir::inout(a));
  auto b = weir::full(streams.own, 16, 2.0f);
  weir::launch(streams.compute, 16, Touch{}, weir::inout(b));
  auto c = weir::empty<float>(streams.own, 16);
  weir::launch(streams.compute, 16, Touch{}, weir::out(c));
  const std::vector<weir::Finding> found = checker.findings();
  ASSERT_EQ(found.size(), 3u);
  EXPECT_NE(to_text(found[0]).find("  first   made by weir::zeros, then filled  "), std::string::npos)
      << to_text(found[0]);
  EXPECT_EQ(column_of(to_text(found[0]), "stream \"own\""), column_of(to_text(found[0]), "stream \"compute\""))
      << to_text(found[0]);
  EXPECT_NE(to_text(found[1]).find("made by weir::full or weir::ones, then filled"), std::string::npos)
      << to_text(found[1]);
  EXPECT_EQ(to_text(found[2]).find("filled"), std::string::npos) << to_text(found[2]);
}

TEST(CheckedMemory, that_was_exported_may_be_ordered_unseen) {
  Pair streams;
  Checker checker({.mode = CheckMode::collect});
  auto a = weir::zeros<float>(streams.own, 16);
  a.set_name("a");
  auto* const tensor = weir::to_dlpack(a);
  const int line = __LINE__ - 1;
  weir::launch(streams.own, 16, Touch{}, weir::inout(a));
  weir::launch(streams.compute, 16, Touch{}, weir::inout(a));
  EXPECT_EQ(checker.errors(), 0u);
  ASSERT_EQ(checker.findings().size(), 1u);
  const weir::Finding found = checker.findings().at(0);
  EXPECT_EQ(found.severity, Severity::warning);
  EXPECT_NE(found.why.find("array 'a' may be ordered by calls that nobody sees: it was exported by DLPack at"),
            std::string::npos)
      << found.why;
  EXPECT_NE(found.why.find("memory_test.cpp:" + std::to_string(line)), std::string::npos) << found.why;
  const weir::CheckReport report = checker.report();
  ASSERT_EQ(report.unchecked.size(), 1u);
  EXPECT_EQ(report.unchecked[0].what, "array 'a'");
  streams.own.synchronize();
  streams.compute.synchronize();
  tensor->deleter(tensor);
}

TEST(CheckedMemory, that_was_imported_has_contents_and_may_be_ordered_unseen) {
  Pair streams;
  weir_test::Producer producer({16});
  Checker checker({.mode = CheckMode::collect});
  auto a = weir::from_dlpack<float>(producer.versioned(), streams.own);
  weir::launch(streams.own, 16, Look{}, weir::in(a));
  EXPECT_TRUE(checker.findings().empty()) << to_text(checker.report());
  weir::launch(streams.compute, 16, Touch{}, weir::inout(a));
  EXPECT_EQ(checker.errors(), 0u);
  ASSERT_GE(checker.findings().size(), 1u);
  for (const weir::Finding& found : checker.findings()) {
    EXPECT_EQ(found.severity, Severity::warning);
    EXPECT_NE(found.why.find("it came by DLPack at"), std::string::npos) << found.why;
  }
  streams.own.synchronize();
  streams.compute.synchronize();
}

/// A stream, an event and an array come and go, behind each other.
void come_and_go(const Pair& streams) {
  const weir::Stream s(streams.device, {.blocking = false});
  const weir::Event e(streams.device);
  auto x = weir::zeros<float>(s, 16);
  weir::launch(s, 16, Touch{}, weir::inout(x));
  s.record(e);
  streams.own.wait(e);
  weir::launch(streams.own, 16, Look{}, weir::in(x));
  streams.own.synchronize();
}

TEST(CheckedMemory, of_the_checker_itself_is_flat_where_all_comes_and_goes) {
  Pair streams;
  Checker checker({.mode = CheckMode::collect});
  for (int i = 0; i < 1000; ++i) come_and_go(streams);
  const weir::CheckStatistics first = checker.statistics();
  for (int i = 0; i < 2000; ++i) come_and_go(streams);
  const weir::CheckStatistics second = checker.statistics();
  EXPECT_GT(second.commands, 2 * first.commands);
  EXPECT_LE(second.bytes, first.bytes + 1024);
  EXPECT_TRUE(checker.findings().empty()) << to_text(checker.report());
}

TEST(CheckedMemory, names_the_stream_that_is_gone_among_many_others) {
  Pair streams;
  Checker checker({.mode = CheckMode::collect, .leaks = true});
  const weir::PoolRef pool = weir::default_pool(streams.device);
  void* memory = nullptr;
  {
    const weir::Stream maker(streams.device, {.blocking = false, .name = "maker"});
    memory = pool.allocate(maker, 64);
    maker.synchronize();
  }
  for (int i = 0; i < 500; ++i) come_and_go(streams);
  checker.finish();
  ASSERT_EQ(checker.findings().size(), 1u) << to_text(checker.report());
  const weir::Finding found = checker.findings().at(0);
  EXPECT_EQ(found.kind, FindingKind::leak);
  ASSERT_TRUE(found.second);
  EXPECT_EQ(found.second->stream, "maker");
  pool.free(streams.own, memory);
}

// A failure skips commands; it orders none, and none is lost for it.
TEST(CheckedStreams, that_fail_are_told_as_they_are_without_a_checker) {
  Pair streams;
  Checker checker({.mode = CheckMode::throw_error});
  auto a = weir::zeros<float>(streams.own, 16);
  weir::launch(streams.own, 16, Throw{}, weir::inout(a));
  EXPECT_THROW(weir::launch(streams.compute, 16, Touch{}, weir::inout(a)), weir::Error)
      << "it is a hazard all the same";
  EXPECT_EQ(checker.errors(), 1u);
  streams.compute.wait(streams.own);
  weir::launch(streams.compute, 16, Touch{}, weir::inout(a));
  for (const weir::Stream* failed : {&streams.compute, &streams.own}) {
    try {
      failed->synchronize();
      ADD_FAILURE() << "the failure is lost";
    } catch (const weir::Error& error) {
      EXPECT_EQ(error.code(), weir::Errc::kernel_failed) << error.what();
    }
  }
  weir::launch(streams.own, 16, Touch{}, weir::inout(a));
  streams.own.synchronize();
  EXPECT_EQ(checker.errors(), 1u) << to_text(checker.report());
}

}  // namespace
