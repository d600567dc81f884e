// `weir graph show`: text, pictures and JSON of graphs in files, whole and damaged.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>
#include <nlohmann/json.hpp>

#include <weir/weir.hpp>

#include "support/sanitizers.hpp"
#include "tool.hpp"

namespace {

using nlohmann::json;
using tool_test::Result;
using tool_test::run;
using tool_test::text;

using Arguments = std::vector<std::string>;

struct ToolStep {
  void operator()(std::size_t i, weir::View<const float> x, weir::View<float> y) const { y[i] = x[i] + 1; }
};
struct ToolCountDown {
  void operator()(std::size_t i, weir::View<std::int32_t> n) const { --n[i]; }
};

/// A folder with a graph in it: a pipeline of two streams with a loop.
class GraphShow : public testing::Test {
 protected:
  GraphShow() {
    std::filesystem::create_directories(folder);
    static const bool registered = [] {
      weir::register_kernel<ToolStep>("tool.step");
      weir::register_kernel<ToolCountDown>("tool.count_down");
      return true;
    }();
    static_cast<void>(registered);
    const weir::Device device = weir::device("cpu");
    const weir::Stream s(device, {.name = "compute"}), t(device, {.name = "transfer \"fast\""});
    auto x = weir::zeros<float>(s, 64), y = weir::zeros<float>(s, 64);
    auto turns = weir::full<std::int32_t>(s, 1, 2);
    s.synchronize();
    const weir::Graph graph = weir::capture(s, [&] {
      weir::copy(s, y, x);
      t.wait(s);
      weir::launch(t, weir::Extent{.size = 64, .name = "right"}, ToolStep{}, weir::in(x), weir::out(y));
      weir::launch(s, weir::Extent{.size = 64, .name = "left"}, ToolStep{}, weir::in(y), weir::out(x));
      s.wait(t);
      weir::capture_while(s, turns, [&] { weir::launch(s, 1, ToolCountDown{}, weir::inout(turns)); });
      weir::fill(s, x.slice(0, 8), 1.0f);
    });
    weir::save(graph, file);
    s.synchronize();
  }
  ~GraphShow() override { std::filesystem::remove_all(folder); }

  static std::string bytes(const std::filesystem::path& path) {
    std::ifstream stream(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>()};
  }
  static bool has_dot() { return std::system("command -v dot > /dev/null 2>&1") == 0; }

  const std::filesystem::path folder =
      std::filesystem::temp_directory_path() / ("weir graph's " + std::to_string(getpid()));
  const std::string file = folder / "some.graph";
  Result result;
};

TEST_F(GraphShow, writes_graphvizs_language) {
  const Arguments arguments = {"graph", "show", file};
  const Result result = run(arguments);
  EXPECT_EQ(result.exit_code, 0) << text(arguments, result);
  EXPECT_EQ(result.err, "");
  EXPECT_EQ(result.out.substr(0, 14), "digraph weir {") << result.out;
  for (const char* part : {"right", "left", "copy", "fill", "while", "graph_test.cpp:", "compute", "\\\"fast\\\"",
                           "n0 -> n1", "again and again", "skew="}) {
    EXPECT_NE(result.out.find(part), std::string::npos) << part << " is missing in\n" << result.out;
  }
}

TEST_F(GraphShow, as_json_tells_who_depends_on_whom) {
  const Arguments arguments = {"graph", "show", file, "--json"};
  const Result result = run(arguments);
  ASSERT_EQ(result.exit_code, 0) << text(arguments, result);
  const json value = json::parse(result.out);
  EXPECT_EQ(value.at("file"), file);
  const json& nodes = value.at("nodes");
  ASSERT_EQ(nodes.size(), 6u) << nodes;
  const std::vector<std::string> names = {"copy", "right", "left", "while", "tool.count_down", "fill"};
  for (std::size_t i = 0; i < names.size(); ++i) EXPECT_EQ(nodes[i].at("node"), i);
  EXPECT_EQ(nodes[1].at("name"), "right");
  EXPECT_EQ(nodes[1].at("kind"), "launch");
  EXPECT_EQ(nodes[1].at("stream"), "transfer \"fast\"");
  EXPECT_NE(nodes[1].at("where").get<std::string>().find("graph_test.cpp:"), std::string::npos);
  EXPECT_EQ(nodes[0].at("depends"), json::array());
  EXPECT_EQ(nodes[1].at("depends"), json::array({0}));
  EXPECT_EQ(nodes[2].at("depends"), json::array({0}));
  EXPECT_EQ(nodes[3].at("depends"), json::array({2, 1}));
  EXPECT_EQ(nodes[3].at("kind"), "conditional");
  EXPECT_EQ(nodes[4].at("parent"), 3);
  EXPECT_EQ(nodes[5].at("depends"), json::array({3}));
}

TEST_F(GraphShow, draws_pictures) {
  if (!has_dot()) GTEST_SKIP() << "Graphviz is not installed";
  const std::string picture = folder / "it's a picture.svg";
  const Arguments arguments = {"graph", "show", file, "--output", picture};
  const Result result = run(arguments);
  EXPECT_EQ(result.exit_code, 0) << text(arguments, result);
  EXPECT_EQ(result.err, "");
  EXPECT_NE(result.out.find("6 nodes drawn to"), std::string::npos) << result.out;
  const std::string svg = bytes(picture);
  EXPECT_NE(svg.find("<svg"), std::string::npos);
  EXPECT_NE(svg.find("graph_test.cpp:"), std::string::npos) << "no source lines to hover over";
}

TEST_F(GraphShow, without_graphviz_says_what_to_install) {
  const Arguments arguments = {"graph", "show", file, "--output", folder / "a.svg"};
  const Result result = run(arguments, {.environment = {"PATH=/nowhere"}});
  EXPECT_EQ(result.exit_code, 3) << text(arguments, result);
  EXPECT_EQ(result.out, "");
  EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << text(arguments, result);
  EXPECT_NE(result.err.find("graphviz"), std::string::npos) << text(arguments, result);
  const Arguments plain = {"graph", "show", file, "--output", folder / "a.dot"};
  const Result drawn = run(plain, {.environment = {"PATH=/nowhere"}});
  EXPECT_EQ(drawn.exit_code, 0) << text(plain, drawn);
  EXPECT_EQ(bytes(folder / "a.dot").substr(0, 14), "digraph weir {");
}

TEST_F(GraphShow, says_when_the_picture_cannot_be_written) {
  for (const char* name : {"/nowhere/at.all.dot", "/nowhere/at.all.svg"}) {
    if (std::string(name).ends_with("svg") && !has_dot()) continue;
    const Arguments arguments = {"graph", "show", file, "--output", name};
    const Result result = run(arguments);
    EXPECT_EQ(result.exit_code, 3) << text(arguments, result);
    EXPECT_EQ(result.out, "");
    EXPECT_NE(result.err.find(name), std::string::npos) << text(arguments, result);
  }
}

TEST_F(GraphShow, refuses_what_it_cannot_show_in_one_line) {
  const std::string other = folder / "other";
  std::ofstream(other) << "not a graph, but long enough to have had the header of one in it";
  struct Bad {
    Arguments arguments;
    std::string says;
  };
  const std::vector<Bad> all = {
      {{"graph"}, "subcommand"},
      {{"graph", "show"}, "FILE"},
      {{"graph", "show", folder / "nothing"}, "nothing"},
      {{"graph", "show", folder}, folder},
      {{"graph", "show", other}, other},
      {{"graph", "show", "/dev/null"}, "/dev/null"},
      {{"graph", "show", file, "--output", folder / "picture.jpeg"}, ".svg, .png, .pdf or .dot"},
      {{"graph", "show", file, "--output", folder / "picture"}, ".svg, .png, .pdf or .dot"},
      {{"graph", "hide", file}, "subcommand"},
  };
  for (const Bad& bad : all) {
    const Result result = run(bad.arguments);
    EXPECT_EQ(result.exit_code, 2) << text(bad.arguments, result);
    EXPECT_EQ(result.out, "") << text(bad.arguments, result);
    EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << text(bad.arguments, result);
    EXPECT_NE(result.err.find(bad.says), std::string::npos) << bad.says << "\n" << text(bad.arguments, result);
  }
}

TEST_F(GraphShow, looks_at_the_head_of_a_file_first) {
  const auto refused = [](const std::string& path, const char* says) {
    // Memory for the program itself, and not for the file; AddressSanitizer needs all addresses there are.
    const std::size_t memory =
        weir_test::under_address_sanitizer || weir_test::under_thread_sanitizer ? 0 : std::size_t{1} << 30;
    const auto begin = std::chrono::steady_clock::now();
    const Arguments arguments = {"graph", "show", path, "--json"};
    const Result result = run(arguments, {.memory = memory});
    EXPECT_EQ(result.exit_code, 2) << text(arguments, result);
    EXPECT_NE(result.err.find(says), std::string::npos) << text(arguments, result);
    EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(20))
        << "it did not look at the head first";
  };
  refused("/dev/zero", "it is no graph of Weir's");
  const std::string sparse = folder / "sparse";
  std::ofstream(sparse).close();
  std::filesystem::resize_file(sparse, std::uintmax_t{3} << 30);
  refused(sparse, "it is no graph of Weir's");
  // With a head that says something else about what follows.
  const std::string head = bytes(file).substr(0, 32);
  std::ofstream(sparse, std::ios::binary) << head;
  std::filesystem::resize_file(sparse, std::uintmax_t{3} << 30);
  refused(sparse, "its length is wrong");
  std::string lying = head;
  lying[16 + 7] = 1;  // the highest byte of the length
  std::ofstream(sparse, std::ios::binary | std::ios::trunc) << lying;
  refused(sparse, "its length is wrong");
}

TEST_F(GraphShow, reads_pipes) {
  const std::string pipe = folder / "pipe";
  const auto show = [&](const std::string& contents) {
    ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
    std::thread writer([&] { std::ofstream(pipe, std::ios::binary) << contents; });
    const Arguments arguments = {"graph", "show", pipe, "--json"};
    result = run(arguments);
    const int end = open(pipe.c_str(), O_RDONLY | O_NONBLOCK);  // lets the writer go if the program did not
    writer.join();
    close(end);
    std::filesystem::remove(pipe);
  };
  const std::string good = bytes(file);
  show(good);
  EXPECT_EQ(result.exit_code, 0) << result.err;
  show(good + "x");
  EXPECT_EQ(result.exit_code, 2) << result.out;
  show(good.substr(0, good.size() - 1));
  EXPECT_EQ(result.exit_code, 2) << result.out;
}

TEST_F(GraphShow, survives_damage) {
  const std::string good = bytes(file);
  std::mt19937 random(11);
  for (int round = 0; round < 60; ++round) {
    std::string bad = good;
    if (round % 3 == 0) bad.resize(random() % bad.size());
    if (!bad.empty()) bad[random() % bad.size()] ^= static_cast<char>(1 + random() % 255);
    const std::string damaged = folder / "damaged";
    std::ofstream(damaged, std::ios::binary | std::ios::trunc) << bad;
    const Arguments arguments = {"graph", "show", damaged, "--json"};
    const Result result = run(arguments);
    EXPECT_EQ(result.exit_code, 2) << text(arguments, result);
    EXPECT_EQ(result.out, "");
    EXPECT_NE(result.err.find("damaged"), std::string::npos) << text(arguments, result);
  }
}

}  // namespace
