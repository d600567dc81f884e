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
