// Timelines as pages: what is written, and what a browser makes of it (page/look.py).
#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <random>
#include <sstream>
#include <string>
#include <string_view>

#include <sys/wait.h>
#include <unistd.h>

#include <gtest/gtest.h>
#include <zlib.h>

#include <weir/error.hpp>
#include <weir/trace.hpp>

#include "made.hpp"

namespace {

using trace_test::Made;
using weir::trace::Lane;
using weir::trace::State;
using weir::trace::Tie;
using weir::trace::Timeline;

const std::string evil = "</script><script>document.title = 'evil'</script>";

/// Two devices, all that can be drawn, and names that would break a page.
Timeline everything() {
  Made made(3, 2);
  const auto in = made.add(0, Lane::copy_in, 1000, 3000, 103000, {}, 1 << 20);
  const auto record = made.add(0, Lane::order, 2000, 103000, 103000, {{in, Tie::stream_order}});
  const auto wait = made.add(2, Lane::order, 3000, 103000, 103000, {{record, Tie::event}});
  const auto kernel = made.add(2, Lane::kernel, 4000, 104000, 304000, {{wait, Tie::stream_order}}, 1 << 21);
  const auto other = made.add(1, Lane::kernel, 5000, 9000, 120000);
  const auto out = made.add(2, Lane::copy_out, 6000, 310000, 400000, {{kernel, Tie::stream_order}}, 1 << 20);
  const auto last =
      made.add(1, Lane::host_function, 7000, 401000, 402000, {{other, Tie::stream_order}, {out, Tie::memory}});
  const auto pending = made.add(0, Lane::fill, 8000, 0, 0, {{record, Tie::stream_order}}, 64);
  Timeline& timeline = made.timeline;
  timeline.commands[record].event = timeline.commands[wait].event = 1;
  timeline.commands[record].name = timeline.commands[wait].name = weir::trace::none;
  timeline.commands[kernel].name = made.text("Saxpy");
  timeline.commands[kernel].arguments = made.text("in 1048576, inout 1048576");
  timeline.commands[other].name = made.text(evil);
  timeline.commands[in].pageable = true;
  timeline.commands[in].called = 103500;
  timeline.commands[pending].state = State::pending;
  timeline.commands[last].id = std::uint64_t{1} << 52;
  timeline.waits.push_back({made.text("stream s2"), 2, out, made.text("made.cpp"), 99, 1, 110000, 400500});
  timeline.ranges.push_back({made.text("step"), 1, 500, 9000});
  const auto file = made.text("graph.cpp");
  timeline.nodes.push_back({kernel, 1, made.text("Step"), file, 7, Lane::kernel, 110000, 180000});
  timeline.nodes.push_back({kernel, 2, weir::trace::none, file, 8, Lane::fill, 150000, 300000});
  timeline.nodes.push_back({kernel, 3, weir::trace::none, file, 9, Lane::copy_device, 190000, 290000});
  timeline.nodes[2].dependency_count = 2;
  timeline.node_dependencies = {1, 2};
  timeline.ranges.push_back({made.text("the rest"), 1, 9500, -1});
  timeline.best_rates = {{12'600'000'000, 0, made.text("the profile <b>")}, {}};
  timeline.program = "./pipeline " + evil;
  timeline.clock = "made by hand";
  timeline.date = "2026-01-01T00:00:00Z";
  timeline.note = "3 commands were dropped: <b>";
  timeline.dropped = 3;
  timeline.duration = 500000;
  return timeline;
}

/// As programs are: streams in turn, kernels, sizes and times by chance.
Timeline many(std::uint32_t count) {
  Made made(4);
  std::mt19937 random(1);
  const std::uint32_t kernels[] = {made.text("Saxpy"), made.text("Sum"), made.text("Scale")};
  std::int64_t now = 0;
  std::int64_t free[4] = {};
  made.timeline.commands.reserve(count);
  for (std::uint32_t i = 0; i < count; ++i) {
    weir::trace::Command one;
    one.id = i + 1;
    one.name = kernels[random() % 3];
    one.file = 0;
    one.line = 10 + random() % 20;
    one.stream = random() % 4;
    one.state = State::ran;
    one.bytes = random();
    one.elements = one.bytes / 4;
    one.call = now += 500 + static_cast<std::int64_t>(random() % 1000);
    one.begin = std::max(one.call + static_cast<std::int64_t>(random() % 3000), free[one.stream]);
    one.end = free[one.stream] = one.begin + 100 + static_cast<std::int64_t>(random() % 4000);
    one.first_dependency = static_cast<std::uint32_t>(made.timeline.dependencies.size());
    for (std::uint32_t k = 1; k <= 2 && k <= i; ++k) {
      made.timeline.dependencies.push_back(
          {i - 1 - static_cast<std::uint32_t>(random() % std::min(i, 9U)), Tie::event});
      ++one.dependency_count;
    }
    made.timeline.commands.push_back(one);
  }
  made.timeline.duration = now;
  return made.timeline;
}

std::string page(const Timeline& timeline) {
  std::ostringstream out;
  write_page(timeline, out);
  return out.str();
}

std::string json(const Timeline& timeline) {
  std::ostringstream out;
  write_json(timeline, out);
  return out.str();
}

/// A folder that is gone when the test is over.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    char name[] = "/tmp/weir_page_test_XXXXXX";
    if (mkdtemp(name) != nullptr) path_ = name;
  }
  ~TemporaryFolder() { std::filesystem::remove_all(path_); }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  std::string operator/(const char* name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

/// What is wrong with a page; empty if it can be read.
std::string outcome(const std::string& file, const std::string& text) {
  std::ofstream(file, std::ios::binary) << text;
  return trace_test::what_is_wrong([&] { return weir::trace::load(file); });
}

constexpr std::string_view digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
const std::string head = "<!doctype html>\n<script id=\"timeline\" data-version=\"1\">";

/// The data of a page, unpacked.
std::string columns_of(const std::string& page) {
  const std::string mark = "data-version=\"1\">";
  std::string packed;
  unsigned held = 0, bits = 0;
  for (std::size_t i = page.find(mark) + mark.size(); page[i] != '<' && page[i] != '='; ++i) {
    held = held << 6 | static_cast<unsigned>(digits.find(page[i]));
    bits += 6;
    if (bits >= 8) packed.push_back(static_cast<char>(held >> (bits -= 8)));
  }
  std::string columns(1 << 16, '\0');
  uLongf size = columns.size();
  EXPECT_EQ(uncompress(reinterpret_cast<Bytef*>(columns.data()), &size, reinterpret_cast<const Bytef*>(packed.data()),
                       packed.size()),
            Z_OK);
  columns.resize(size);
  return columns;
}
std::string page_of(const std::string& columns) {
  std::string packed(compressBound(columns.size()), '\0');
  uLongf size = packed.size();
  EXPECT_EQ(compress(reinterpret_cast<Bytef*>(packed.data()), &size, reinterpret_cast<const Bytef*>(columns.data()),
                     columns.size()),
            Z_OK);
  packed.resize(size);
  std::string text = head;
  unsigned held = 0, bits = 0;
  for (const char c : packed + '\0') {
    held = held << 8 | static_cast<unsigned char>(c);
    for (bits += 8; bits >= 6; bits -= 6) text += digits[held >> (bits - 6) & 63];
  }
  return text + "</script>";
}

}  // namespace

TEST(TracePage, is_read_back_as_it_was) {
  const TemporaryFolder folder;
  for (const Timeline& timeline : {everything(), many(1000), Timeline()}) {
    save(timeline, folder / "page.html");
    EXPECT_EQ(json(weir::trace::load(folder / "page.html")), json(timeline));
  }
  for (unsigned seed = 0; seed < 200; ++seed) {
    const Timeline timeline = trace_test::by_chance(seed);
    save(timeline, folder / "page.html");
    ASSERT_EQ(json(weir::trace::load(folder / "page.html")), json(timeline)) << "seed " << seed;
  }
}

TEST(TracePage, that_is_damaged_is_an_error) {
  const TemporaryFolder folder;
  const std::string file = folder / "page.html";
  const std::string text = page(everything());
  const std::string mark = "data-version=\"1\">";
  const std::size_t data = text.find(mark) + mark.size();
  const std::size_t end = text.find('<', data);
  EXPECT_EQ(outcome(file, text), "");
  EXPECT_NE(outcome(file, "<!doctype html>").find("data: it is missing"), std::string::npos);
  EXPECT_NE(outcome(file, text.substr(0, data - 3) + "2" + text.substr(data - 2)).find("version"), std::string::npos);
  EXPECT_NE(outcome(file, text.substr(0, data + 100)).find("ends too early"), std::string::npos);
  EXPECT_NE(outcome(file, text.substr(0, data + 100) + text.substr(end)).find("ends too early"), std::string::npos);
  const std::string more = text.substr(0, text.find_last_not_of('=', end - 1) + 1) + "AAAA" + text.substr(end);
  EXPECT_NE(outcome(file, more).find("data: "), std::string::npos) << "there is more behind the end";
  std::mt19937 random(3);
  for (int i = 0; i < 300; ++i) {
    std::string other = text;
    other[data + random() % (end - data)] = "Az09+/=!"[random() % 8];
    if (other == text) continue;
    if (!outcome(file, other).empty()) continue;
    // Bits between the last block and the sum mean nothing.
    EXPECT_EQ(json(weir::trace::load(file)), json(everything())) << "the data has a sum, " << i;
  }
  weir::trace::ReadOptions small;
  small.limit = 1000;
  save(many(1000), file);
  EXPECT_THROW(static_cast<void>(weir::trace::load(file, small)), weir::Error);
}

TEST(TracePage, whose_numbers_are_wrong_is_an_error_or_another_timeline) {
  const TemporaryFolder folder;
  const std::string file = folder / "page.html";
  std::mt19937 random(4);
  const std::string whole = columns_of(page(everything()));
  EXPECT_EQ(outcome(file, page_of(whole)), "");
  // A string of one byte, of which there is none.
  EXPECT_NE(outcome(file, page_of("\1")).find("head: the data ends too early"), std::string::npos);
  int wrong = 0;
  for (int i = 0; i < 800; ++i) {
    std::string columns = whole;
    for (unsigned k = 1 + random() % 2; k > 0; --k) columns[random() % columns.size()] = static_cast<char>(random());
    if (random() % 20 == 0) columns.resize(random() % columns.size());
    wrong += outcome(file, page_of(columns)).empty() ? 0 : 1;
  }
  EXPECT_GT(wrong, 160);
}

TEST(TracePage, holds_names_that_look_like_markup) {
  const std::string text = page(everything());
  EXPECT_EQ(text.find(evil), std::string::npos);
  EXPECT_EQ(text.find("<b>"), std::string::npos);
  EXPECT_NE(text.find("<title>./pipeline &lt;/script>"), std::string::npos);
}

TEST(TracePage, loads_nothing) {
  const std::string text = page(everything());
  EXPECT_EQ(text.find("http:"), std::string::npos);
  EXPECT_EQ(text.find("https:"), std::string::npos);
  EXPECT_EQ(text.find(" src="), std::string::npos);
}

TEST(TracePage, takes_less_than_sixty_bytes_a_command) {
  constexpr std::uint32_t count = 50000;
  EXPECT_LT(page(many(count)).size() / count, 60U);
}

TEST(TracePage, is_drawn_by_a_browser) {
  const TemporaryFolder folder;
  const Timeline timeline = everything();
  save(timeline, folder / "page.html");
  save(timeline, folder / "page.json");
  std::ofstream(folder / "summary.json") << to_json(summarize(timeline), timeline);
  save(many(20000), folder / "many.html");
  save(Timeline(), folder / "empty.html");
  Made rows(60, 3);
  for (std::uint32_t s = 0; s < 60; ++s) rows.add(s, Lane::kernel, s, 1000 * s, 1000 * s + 5000);
  save(rows.timeline, folder / "rows.html");
  const int status = std::system(("python3 '" WEIR_TEST_PAGE "/look.py' '" + (folder / "") + "'").c_str());
  ASSERT_TRUE(WIFEXITED(status));
  constexpr int no_browser = 77;
  constexpr int no_program = 127;  // the shell's
  if (WEXITSTATUS(status) == no_browser) GTEST_SKIP() << "there is no Chromium here";
  if (WEXITSTATUS(status) == no_program) GTEST_SKIP() << "there is no Python here";
  EXPECT_EQ(WEXITSTATUS(status), 0);
}
