// The checker of the running process: what it finds, refuses and prints. The kernels touch nothing, so that nothing races.
#include <atomic>
#include <filesystem>
#include <functional>
#include <optional>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include <unistd.h>

#include <gtest/gtest.h>

#include <weir/check.hpp>
#include <weir/weir.hpp>

#include "pair.hpp"
#include "support/between_looks.hpp"

namespace {

using checker_test::Pair;
using weir::Checker;
using weir::CheckMode;
using weir::FindingKind;

struct Touch {
  WEIR_KERNEL void operator()(std::size_t, weir::View<float>) const {}
};
struct AddOne {
  WEIR_KERNEL void operator()(std::size_t i, weir::View<float> x) const { x[i] += 1; }
};
struct Look {
  WEIR_KERNEL void operator()(std::size_t, weir::View<const float>) const {}
};

const weir::StreamOptions apart = {.blocking = false};

float first_of(const weir::Stream& stream, const weir::Array<float>& x) {
  std::vector<float> host(x.size());
  weir::copy(stream, host, x);
  return host[0];
}

std::size_t count(const Checker& checker, FindingKind kind) {
  std::size_t found = 0;
  for (const weir::Finding& one : checker.findings()) found += one.kind == kind ? 1 : 0;
  return found;
}

TEST(Checker, finds_the_missing_wait_and_names_the_lines) {
  Pair streams;
  Checker checker({.mode = CheckMode::collect});
  EXPECT_TRUE(Checker::armed());
  auto a = weir::zeros<float>(streams.own, 1024);
  const int made = __LINE__ - 1;
  a.set_name("a");
  weir::launch(streams.compute, 1024, Touch{}, weir::inout(a));
  const int used = __LINE__ - 1;
  ASSERT_EQ(checker.errors(), 1u);
  const weir::Finding found = checker.findings().at(0);
  EXPECT_EQ(found.kind, FindingKind::use_before_alloc);
  EXPECT_EQ(found.also, (std::vector{FindingKind::read_after_write, FindingKind::write_after_write}));
  EXPECT_EQ(found.key, "use_before_alloc:checker_test.cpp:" + std::to_string(used) +
                           ":checker_test.cpp:" + std::to_string(made) + ":a");
  const std::string text = to_text(found);
  for (const char* part :
       {"of \"a\": bytes [0, 4096) of 4096", "(use 0, inout)", "stream \"compute\"", "stream \"own\"",
        "nothing orders \"compute\" behind \"own\": no wait between them so far", "compute.wait(own);      proved"}) {
    EXPECT_NE(text.find(part), std::string::npos) << part << "\n" << text;
  }
  checker.finish();
  EXPECT_FALSE(Checker::armed());
}

TEST(Checker, mends_by_the_event_that_is_there) {
  Pair streams;
  Checker checker({.mode = CheckMode::collect});
  auto a = weir::zeros<float>(streams.own, 16);
  const weir::Event ready = streams.own.record();
  const std::string line = "checker_test.cpp:" + std::to_string(__LINE__ - 1) + ">);";
  weir::launch(streams.own, 16, Look{}, weir::in(a));
  weir::launch(streams.compute, 16, Look{}, weir::in(a));
  ASSERT_EQ(checker.errors(), 1u);
  const weir::Finding found = checker.findings().at(0);
  ASSERT_TRUE(found.mend);
  EXPECT_EQ(found.mend->code.at(0).text.rfind("compute.wait(<event recorded at ", 0), 0u);
  EXPECT_NE(found.mend->code.at(0).text.find(line), std::string::npos) << found.mend->code.at(0).text;
  EXPECT_TRUE(found.mend->insert.empty());
}

// Two branches of one graph: the wait is for the other one.
TEST(Checker, says_which_node_an_event_of_the_same_launch_does_not_come_behind) {
  Pair streams;
  auto a = weir::zeros<float>(streams.own, 16);
  streams.own.synchronize();
  const weir::Event ready(streams.device);
  weir::GraphBuilder builder(streams.device);
  builder.launch(weir::Extent{.size = 16, .name = "writes"}, Touch{}, weir::inout(a));
  builder.record(ready);
  const weir::Graph graph = builder.build();
  Checker checker({.mode = CheckMode::collect});
  graph.launch(streams.own);
  streams.compute.wait(ready);
  weir::launch(streams.compute, 16, Look{}, weir::in(a));
  ASSERT_EQ(checker.errors(), 1u);
  const std::string why = checker.findings().at(0).why;
  EXPECT_NE(why.find("which a node of that launch records: no dependency leads to it from node"), std::string::npos)
      << why;
  // By a later launch it is the order of the calls that misses.
  graph.launch(streams.compute);
  weir::launch(streams.own, 16, Look{}, weir::in(a));
  EXPECT_EQ(checker.findings().back().why.find("which a node"), std::string::npos) << checker.findings().back().why;
  streams.own.synchronize();
  streams.compute.synchronize();
}

// A launch of a graph is refused for what one of its nodes does, each time, and changes nothing.
TEST(Checker, refuses_launches_of_graphs) {
  Pair streams;
  auto a = weir::zeros<float>(streams.own, 16);
  auto ran = weir::zeros<float>(streams.own, 1);
  streams.own.synchronize();
  const weir::Graph graph = weir::capture(streams.compute, [&] {
    weir::launch(streams.compute, 1, AddOne{}, weir::inout(ran));
    const auto own = weir::zeros<float>(streams.compute, 16);
    weir::launch(streams.compute, 16, Touch{}, weir::inout(own));
    weir::launch(streams.compute, 16, Touch{}, weir::inout(a));
  });
  Checker checker({.mode = CheckMode::throw_error});
  graph.launch(streams.compute);
  streams.compute.synchronize();
  weir::launch(streams.own, 16, Touch{}, weir::inout(a));
  for (int times = 1; times <= 2; ++times) {
    const int line = __LINE__ + 2;
    try {
      graph.launch(streams.compute);
      FAIL() << "not refused";
    } catch (const weir::Error& error) {
      EXPECT_EQ(error.code(), weir::Errc::hazard);
      EXPECT_NE(std::string(error.what()).find("checker_test.cpp:" + std::to_string(line)), std::string::npos)
          << error.what();
      EXPECT_NE(std::string(error.what()).find("the call is refused, nothing has changed"), std::string::npos);
    }
  }
  EXPECT_EQ(checker.errors(), 1u);  // of one place
  streams.compute.synchronize();
  EXPECT_EQ(first_of(streams.compute, ran), 1.0f);
  streams.compute.wait(streams.own);
  graph.launch(streams.compute);
  streams.compute.synchronize();
  EXPECT_EQ(first_of(streams.compute, ran), 2.0f);
}

TEST(Checker, refuses_launches_of_graphs_that_race_within) {
  Pair streams;
  const Checker checker({.mode = CheckMode::throw_error});
  auto a = weir::zeros<float>(streams.own, 16);
  streams.own.synchronize();
  weir::GraphBuilder builder(streams.device);
  builder.launch(16, Touch{}, weir::inout(a.view<1>()));
  builder.launch(16, Touch{}, weir::inout(a.view<1>()));
  const weir::Graph graph = builder.build();
  const auto refused = [&] {
    try {
      graph.launch(streams.own);
    } catch (const weir::Error& error) {
      return error.code() == weir::Errc::hazard;
    }
    return false;
  };
  EXPECT_TRUE(refused());
  EXPECT_TRUE(refused());
  streams.own.synchronize();
}

// Memory of a pool ends where somebody frees it: nobody waits for those that use it.
TEST(Checker, finds_memory_of_pools_that_is_freed_too_early) {
  Pair streams;
  Checker checker({.mode = CheckMode::collect});
  const weir::PoolRef pool = weir::default_pool(streams.device);
  auto* const data = static_cast<float*>(pool.allocate(streams.own, 64));
  const weir::View<float> x(data, 16);
  streams.compute.wait(streams.own);
  weir::launch(streams.compute, 16, Touch{}, weir::out(x));
  pool.free(streams.own, data);
  ASSERT_EQ(checker.errors(), 1u);
  EXPECT_EQ(checker.findings().at(0).kind, FindingKind::use_after_free);
  auto* const again = static_cast<float*>(pool.allocate(streams.own, 64));
  const weir::View<float> y(again, 16);
  weir::launch(streams.own, 16, Touch{}, weir::out(y));
  streams.compute.wait(streams.own);
  pool.free(streams.compute, again);
  EXPECT_EQ(checker.errors(), 1u);
  streams.own.synchronize();
  streams.compute.synchronize();
}

TEST(Checker, tells_leaks_if_asked) {
  const weir::Device device = weir::device("cpu");
  const weir::Stream s(device, apart);
  const weir::PoolRef pool = weir::default_pool(device);
  for (const bool asked : {true, false}) {
    Checker checker({.mode = CheckMode::collect, .leaks = asked});
    void* const kept = pool.allocate(s, 64);
    const int line = __LINE__ - 1;
    void* const freed = pool.allocate(s, 64);
    const auto array = weir::zeros<float>(s, 16);
    pool.free(s, freed);
    checker.finish();
    EXPECT_EQ(count(checker, FindingKind::leak), asked ? 1u : 0u);
    EXPECT_EQ(checker.errors(), 0u);
    if (asked && count(checker, FindingKind::leak) == 1) {
      EXPECT_EQ(checker.findings().back().second->line, static_cast<std::uint32_t>(line));
    }
    pool.free(s, kept);
  }
}

// The end of an array that the host still looks at.
TEST(Checker, refuses_frees_of_what_is_in_use) {
  const weir::Stream s(weir::device("cpu"), apart);
  const Checker checker({.mode = CheckMode::throw_error});
  auto x = weir::zeros<float>(s, 16);
  auto raw = x.view<1>();
  const weir::Stream other(weir::device("cpu"), apart);
  other.wait(s);
  weir::launch(other, 16, Touch{}, weir::inout(raw));
  try {
    x.free(s);
    FAIL() << "not refused";
  } catch (const weir::Error& error) {
    EXPECT_EQ(error.code(), weir::Errc::hazard);
  }
  s.wait(other);
  EXPECT_EQ(first_of(s, x), 0.0f);  // it is there as before
  x.free(s);
  s.synchronize();
}

TEST(Checker, is_silent_about_what_is_ordered) {
  Pair streams;
  Checker checker({.mode = CheckMode::collect});
  {
    auto a = weir::zeros<float>(streams.own, 1024);
    streams.compute.wait(streams.own);
    weir::launch(streams.compute, 1024, Touch{}, weir::inout(a));
    std::vector<float> host(1024);
    weir::copy(streams.compute, host, a);
    weir::copy(streams.compute, a, host);
  }
  checker.finish();
  EXPECT_TRUE(checker.findings().empty()) << to_text(checker.report());
  EXPECT_GE(checker.statistics().commands, 5u);
}

// The memory of a graph goes with it: its addresses may be anybody's then, as here those of a view.
TEST(Checker, forgets_the_memory_of_graphs_that_are_gone) {
  const weir::Stream s(weir::device("cpu"), apart);
  const Checker checker({.mode = CheckMode::collect});
  float* data = nullptr;
  {
    const weir::Graph graph = weir::capture(s, [&] {
      const auto x = weir::zeros<float>(s, 1024);
      data = x.view().data();
    });
    graph.launch(s);
    s.synchronize();
  }
  weir::launch(s, 1024, Touch{}, weir::inout(weir::View<float>(data, 1024)));
  s.synchronize();
  EXPECT_EQ(checker.errors(), 0u);
}

// load_graph waits for the contents of the arrays that it makes.
TEST(Checker, is_silent_about_graphs_that_are_loaded) {
  const weir::Device device = weir::device("cpu");
  const weir::Stream s(device, apart);
  const std::filesystem::path path =
      std::filesystem::temp_directory_path() / (std::to_string(getpid()) + ".loaded.weir");
  {
    auto x = weir::zeros<float>(s, 1024);
    const weir::Graph graph = weir::capture(s, [&] { weir::fill(s, x, 1.0f); });
    weir::save(graph, path, {{"x", x}});
  }
  const Checker checker({.mode = CheckMode::collect});
  const weir::LoadedGraph loaded = weir::load_graph(path, device);
  std::filesystem::remove(path);
  loaded.graph.launch(s);
  s.synchronize();
  EXPECT_EQ(checker.errors(), 0u);
}

TEST(Checker, counts_the_same_line_once) {
  Pair streams;
  Checker checker({.mode = CheckMode::collect});
  for (int i = 0; i < 3; ++i) {
    auto a = weir::zeros<float>(streams.own, 16);
    weir::launch(streams.compute, 16, Touch{}, weir::inout(a));
  }
  ASSERT_EQ(checker.findings().size(), 1u) << to_text(checker.report());
  EXPECT_EQ(checker.findings()[0].count, 3u);
  checker.clear();
  EXPECT_EQ(checker.errors(), 0u);
}

TEST(Checker, prints_a_key_once_and_totals_at_the_end) {
  Pair streams;
  testing::internal::CaptureStderr();
  {
    Checker checker;
    for (int i = 0; i < 2; ++i) {
      auto a = weir::zeros<float>(streams.own, 16);
      weir::launch(streams.compute, 16, Touch{}, weir::inout(a));
    }
  }
  const std::string text = testing::internal::GetCapturedStderr();
  const std::size_t first = text.find("hazard: use_before_alloc");
  ASSERT_NE(first, std::string::npos) << text;
  EXPECT_EQ(text.find("hazard: ", first + 1), std::string::npos) << text;
  EXPECT_NE(text.find(", 1 error, 0 warnings, 0 hints"), std::string::npos) << text;
}

TEST(Checker, tells_its_sink_and_writes_json) {
  Pair streams;
  std::vector<std::string> told;
  Checker checker({.mode = CheckMode::collect, .sink = [&](const weir::Finding& one) { told.push_back(one.key); }});
  auto a = weir::zeros<float>(streams.own, 16);
  weir::launch(streams.compute, 16, Touch{}, weir::inout(a));
  ASSERT_EQ(told.size(), 1u);
  std::ostringstream out;
  checker.write_json(out);
  EXPECT_NE(out.str().find("\"key\": \"" + told[0] + "\""), std::string::npos) << out.str();
  EXPECT_EQ(out.str().rfind("{\"format\": \"weir.findings\"", 0), 0u);
}

std::optional<weir::Errc> refused(const std::function<void()>& call) {
  try {
    call();
  } catch (const weir::Error& error) {
    return error.errc();
  }
  return std::nullopt;
}

struct Set {
  WEIR_KERNEL void operator()(std::size_t i, weir::View<float> x) const { x[i] = 7; }
};

TEST(Checker, refuses_a_launch_that_is_not_ordered_and_changes_nothing) {
  Pair streams;
  Checker checker({.mode = CheckMode::throw_error});
  auto a = weir::zeros<float>(streams.own, 16);
  const auto use = [&] { weir::launch(streams.compute, 16, Set{}, weir::inout(a)); };
  EXPECT_EQ(refused(use), weir::Errc::hazard);
  EXPECT_EQ(refused(use), weir::Errc::hazard);
  EXPECT_EQ(first_of(streams.own, a), 0.0f);
  streams.compute.wait(streams.own);
  use();
  streams.compute.synchronize();
  EXPECT_EQ(first_of(streams.compute, a), 7.0f);
  ASSERT_EQ(checker.findings().size(), 1u) << to_text(checker.report());
  EXPECT_EQ(checker.findings()[0].count, 2u);
}

TEST(Checker, refuses_in_the_middle_of_a_capture_which_goes_on) {
  Pair streams;
  weir::Stream other{streams.device, apart};
  testing::internal::CaptureStderr();
  {
    Checker checker({.mode = CheckMode::throw_error});
    auto a = weir::zeros<float>(streams.own, 16);
    auto b = weir::zeros<float>(other, 16);
    other.synchronize();
    weir::Graph graph = [&] {
      weir::ScopedCapture capture(other);
      weir::launch(other, 16, Set{}, weir::inout(b));
      EXPECT_EQ(refused([&] { weir::launch(streams.compute, 16, Set{}, weir::inout(a)); }), weir::Errc::hazard);
      weir::launch(other, 16, Touch{}, weir::inout(b));
      return capture.finish();
    }();
    graph.launch(other);
    other.synchronize();
    EXPECT_EQ(first_of(other, b), 7.0f);
    EXPECT_EQ(checker.errors(), 1u) << to_text(checker.report());
  }
  testing::internal::GetCapturedStderr();
}

TEST(Checker, refuses_guards_of_the_host) {
  Pair streams;
  Checker checker({.mode = CheckMode::throw_error});
  auto p = weir::zeros<float>(weir::pinned, 16);
  weir::launch(streams.own, 16, Touch{}, weir::inout(p));
  EXPECT_EQ(refused([&] { [[maybe_unused]] const auto view = weir::host_read(p); }), weir::Errc::hazard);
  streams.own.synchronize();
  { [[maybe_unused]] const auto view = weir::host_read(p); }
  EXPECT_EQ(checker.errors(), 1u) << to_text(checker.report());
}

TEST(Checker, knows_what_a_host_function_has_given) {
  Pair streams;
  Checker checker({.mode = CheckMode::collect});
  auto p = weir::zeros<float>(weir::pinned, 16);
  const weir::HandOff done;
  weir::launch(streams.own, 16, Touch{}, weir::inout(p));
  std::atomic<bool> ran = false;
  weir::host_call(streams.own, [&] {
    done.give();
    ran = true;
  });
  for (int looks = 0; !ran; ++looks) weir_test::between_looks(looks);
  EXPECT_EQ(checker.errors(), 0u);
  done.take();
  { [[maybe_unused]] const auto view = weir::host_read(p); }
  EXPECT_EQ(checker.errors(), 0u) << to_text(checker.report());
  // What comes behind the host function is not before it.
  weir::launch(streams.own, 16, Touch{}, weir::inout(p));
  { [[maybe_unused]] const auto view = weir::host_read(p); }
  EXPECT_EQ(count(checker, FindingKind::read_after_write), 1u);
}

// A refused command was never there: who comes behind its stream comes behind nothing that it alone came behind.
TEST(Checker, orders_nothing_by_what_it_refused) {
  Pair streams;
  const weir::StreamRef legacy = weir::legacy_stream(streams.device);
  const weir::Stream one(streams.device), two(streams.device);
  const Checker checker({.mode = CheckMode::throw_error});
  auto a = weir::zeros<float>(streams.own, 16);
  auto b = weir::zeros<float>(one, 16);
  streams.own.synchronize();
  one.synchronize();
  weir::launch(streams.own, 16, Touch{}, weir::inout(a));
  weir::launch(one, 16, Touch{}, weir::inout(b));
  EXPECT_EQ(refused([&] { weir::launch(legacy, 16, Touch{}, weir::inout(a)); }), weir::Errc::hazard);
  EXPECT_EQ(refused([&] { weir::launch(two, 16, Touch{}, weir::inout(b)); }), weir::Errc::hazard);
  two.wait(one);
  weir::launch(two, 16, Touch{}, weir::inout(b));
  weir::synchronize();
}

TEST(Checker, refuses_to_let_go_of_host_memory_that_is_in_use) {
  Pair streams;
  std::vector<float> v(16);
  Checker checker({.mode = CheckMode::throw_error});
  const auto gone = [&] { weir::host_gone(v.data(), v.size() * sizeof(float)); };
  weir::host_call(
      streams.own, [] {}, weir::inout(weir::View<float>(v.data(), v.size())));
  EXPECT_EQ(refused(gone), weir::Errc::hazard);
  EXPECT_EQ(refused(gone), weir::Errc::hazard);
  streams.own.synchronize();
  EXPECT_EQ(refused(gone), std::nullopt);
  EXPECT_EQ(checker.errors(), 1u);
}

TEST(Checker, comes_and_goes_while_four_threads_launch) {
  const weir::Device device = weir::device("cpu");
  std::atomic<bool> over = false;
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      weir::Stream a{device, apart}, b{device, apart};
      while (!over) {
        auto x = weir::zeros<float>(a, 64);
        b.wait(a);
        weir::launch(b, 64, Set{}, weir::inout(x));
        b.synchronize();
      }
    });
  }
  std::vector<weir::Finding> found;
  for (int i = 0; i < 20; ++i) {
    Checker checker({.mode = CheckMode::collect});
    for (int looks = 0; checker.statistics().commands < 50; ++looks) weir_test::between_looks(looks);
    checker.finish();
    for (const weir::Finding& one : checker.findings()) found.push_back(one);
  }
  over = true;
  for (std::thread& thread : threads) thread.join();
  EXPECT_TRUE(found.empty()) << to_text(found.front());
}

}  // namespace
