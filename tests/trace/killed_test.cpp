// Files of recordings whose program ends at once: they open, and are written soon.
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include <unistd.h>

#include <gtest/gtest.h>

#include <weir/trace.hpp>
#include <weir/weir.hpp>

#include "support/child.hpp"
#include "support/gate.hpp"

namespace {

using weir_test::Marker;

/// A name of a file that is gone when the test is over.
class File {
 public:
  explicit File(const std::string& ending)
      : path(std::filesystem::temp_directory_path() / ("weir_killed" + std::to_string(getpid()) + ending)) {}
  ~File() {
    std::error_code ignored;
    std::filesystem::remove(path, ignored);
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  std::string contents() const {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  }
  const std::filesystem::path path;
};

WEIR_SCENE(works_and_aborts_at_once) {
  Marker marker;
  weir::Stream s;
  mark(s, marker);
  s.synchronize();
  std::abort();
}

TEST(TraceProcess, that_aborts_at_once_leaves_a_file_that_opens_and_says_so) {
  for (const char* ending : {".html", ".json", ".pftrace"}) {
    const File file(ending);
    const weir_test::Outcome outcome =
        weir_test::play("works_and_aborts_at_once", {"WEIR_TRACE=" + file.path.string()});
    EXPECT_EQ(outcome.status & 0x7f, SIGABRT) << outcome.output;
    const std::string note = "this was written while the recording went on";
    if (std::string(ending) == ".pftrace") {
      EXPECT_NE(file.contents().find(note), std::string::npos) << "it has no packet, and Perfetto refuses it";
    } else {
      EXPECT_EQ(weir::trace::load(file.path).note.substr(0, note.size()), note) << ending;
    }
  }
}

/// The number of packets of a file of Perfetto's that are whole; -1 if it does not end with one.
int whole_packets(const std::string& file) {
  int count = 0;
  std::size_t at = 0;
  while (at < file.size()) {
    if (file[at++] != 0x0a) return -1;
    std::size_t length = 0;
    for (unsigned shift = 0;; shift += 7) {
      if (at == file.size() || shift > 28) return -1;
      const auto byte = static_cast<unsigned char>(file[at++]);
      length |= static_cast<std::size_t>(byte & 0x7f) << shift;
      if (byte < 0x80) break;
    }
    if (length > file.size() - at) return -1;
    at += length;
    ++count;
  }
  return count;
}
int count_of(const std::string& text, const std::string& part) {
  int found = 0;
  for (std::size_t at = text.find(part); at != text.npos; at = text.find(part, at + 1)) ++found;
  return found;
}
/// How many commands a file has, whatever its kind; -1 if it does not open.
int commands_in(const std::filesystem::path& path) {
  if (path.extension() != ".pftrace") return static_cast<int>(weir::trace::load(path).commands.size());
  std::ifstream file(path, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  return whole_packets(text) < 0 ? -1 : count_of(text, "lives long enough");
}

struct Lives {
  void operator()(std::size_t) const {}
};
constexpr int kept = 3;

//  s: [kernel] [kernel] [kernel] [held]      the process ends meanwhile
WEIR_SCENE(works_until_it_is_killed_in_the_middle) {
  weir::Stream s(weir::device("cpu"));
  for (int i = 0; i < kept; ++i) weir::launch(s, {.size = 1, .name = "lives long enough"}, Lives{});
  s.synchronize();
  const std::filesystem::path path = std::getenv("WEIR_TRACE");
  weir_test::insist(weir_test::eventually([&] { return commands_in(path) == kept; }), "the file gets what has run");
  weir_test::Gate gate;
  gate.hold(s);
  std::raise(SIGKILL);
}

TEST(TraceProcess, that_is_killed_leaves_a_file_of_any_kind_with_what_was_recorded_until_then) {
  for (const char* ending : {".html", ".json", ".pftrace"}) {
    const File file(ending);
    const weir_test::Outcome outcome =
        weir_test::play("works_until_it_is_killed_in_the_middle", {"WEIR_TRACE=" + file.path.string()});
    ASSERT_TRUE(outcome.ended) << ending << ": " << outcome.output;
    EXPECT_EQ(outcome.status & 0x7f, SIGKILL) << ending << ": " << outcome.output;
    EXPECT_GE(commands_in(file.path), kept) << ending;
    if (std::string(ending) == ".pftrace") continue;
    const weir::trace::Timeline timeline = weir::trace::load(file.path);
    for (int i = 0; i < kept; ++i) {
      const weir::trace::Command& one = timeline.commands[static_cast<std::size_t>(i)];
      EXPECT_EQ(timeline.name_of(one), "lives long enough") << ending;
      EXPECT_EQ(one.state, weir::trace::State::ran) << ending;
      EXPECT_TRUE(std::string(timeline.text(one.file)).ends_with("killed_test.cpp")) << ending;
    }
  }
}

// By the recording's own clock. On a machine that is busy the file may come late now and then.
TEST(TraceSession, has_what_ran_in_its_file_within_a_tenth_of_a_second) {
  const File file(".json");
  weir::Stream s;
  Marker marker;
  std::int64_t soonest = INT64_MAX;
  for (int round = 0; round < 50 && soonest > 100'000'000; ++round) {
    const weir::trace::Session session({.file = file.path});
    mark(s, marker);
    s.synchronize();
    ASSERT_TRUE(weir_test::eventually([&] { return !weir::trace::load(file.path).commands.empty(); }));
    soonest = std::min(soonest, weir::trace::load(file.path).duration);
  }
  EXPECT_LE(soonest, 100'000'000);
}

}  // namespace
