// Scenario files: written and read again they say the same; what they hold takes little memory.
#include <filesystem>
#include <string>

#include <malloc.h>

#include <gtest/gtest.h>

#include <weir/error.hpp>
#include <weir/recording.hpp>

#include "cases.hpp"
#include "everything.hpp"
#include "support/errors.hpp"
#include "support/sanitizers.hpp"

namespace {

using recording_test::Case;
using recording_test::cases;
using recording_test::contents;
using recording_test::everything;
using recording_test::Folder;
using recording_test::normal;
using recording_test::packed;
using weir::Errc;
using weir::Recording;
using weir_test::fails_with;
namespace recorded = weir::recorded;

TEST(ScenarioFiles, say_the_same_when_they_were_read_and_written) {
  ASSERT_EQ(cases().size(), 80u);
  for (const Case& one : cases()) {
    const std::string written = to_json(weir::parse_recording(one.text));
    EXPECT_EQ(normal(written), normal(one.text)) << one.id;
    EXPECT_EQ(to_json(weir::parse_recording(written)), written) << one.id;
  }
}

TEST(ScenarioFiles, keep_every_member_of_every_op_but_those_that_begin_with_x) {
  const std::string written = to_json(weir::parse_recording(everything));
  EXPECT_EQ(to_json(weir::parse_recording(written)), written);
  std::string plain = everything;
  for (const std::string part : {R"("x-of": {"any": ["thing", null, 1e9]}, )", R"(, "x-note": 1)", R"(, "x-k": {})"}) {
    const auto at = plain.find(part);
    ASSERT_NE(at, std::string::npos) << part;
    plain.erase(at, part.size());
  }
  EXPECT_EQ(normal(written), normal(plain));
}

TEST(ScenarioFiles, come_from_disk_plain_or_packed) {
  const Folder folder;
  const Recording recording = weir::parse_recording(everything);
  for (const char* name : {"plain.json", "packed.json.gz"}) {
    weir::save(recording, folder / name);
    EXPECT_EQ(to_json(weir::load_recording(folder / name)), to_json(recording)) << name;
  }
  EXPECT_EQ(folder.files(), 2u) << "something else is left behind";
  EXPECT_LT(contents(folder / "packed.json.gz").size() * 2, contents(folder / "plain.json").size());
  const std::string two_members = packed(to_json(recording).substr(0, 100)) + packed(to_json(recording).substr(100));
  EXPECT_EQ(to_json(weir::parse_recording(two_members)), to_json(recording)) << "gzip files may be joined";
}

TEST(ScenarioFiles, are_replaced_whole_or_not_at_all) {
  const Folder folder;
  const Recording recording = weir::parse_recording(everything);
  EXPECT_TRUE(
      fails_with(Errc::invalid_value, [&] { weir::save(recording, folder / "no/such.json"); }, {"no/such.json"}));
  EXPECT_TRUE(fails_with(Errc::invalid_value, [&] { weir::save(recording, "/dev/full"); }, {"/dev/full"}));
  EXPECT_TRUE(fails_with(Errc::invalid_value, [&] { weir::load_recording(folder / "none"); }, {"none"}));
  EXPECT_TRUE(fails_with(Errc::invalid_value, [&] { weir::load_recording("/"); }, {"it cannot be read"}));
  EXPECT_EQ(folder.files(), 0u);
}

TEST(ScenarioFiles, may_have_their_lists_in_any_order) {
  const std::string text = R"({"program": [{"op": "wait", "thread": "T2", "stream": "s", "event": "e"},
      {"id": "k", "op": "launch", "stream": "s", "uses": ["a"]}],
    "buffers": [{"name": "a", "kind": "device", "bytes": 4, "home": "s", "device": "d"}],
    "events": [{"name": "e", "device": "d"}], "streams": [{"name": "s", "kind": "blocking", "device": "d"}],
    "threads": ["T1", "T2"], "devices": [{"name": "c"}, {"name": "d"}], "version": 1, "format": "weir.scenario"})";
  const Recording recording = weir::parse_recording(text);
  EXPECT_EQ(normal(to_json(recording)), normal(text));
  EXPECT_EQ(recording.command(0).thread, 1u);
}

TEST(ScenarioFiles, name_the_line_of_each_command) {
  const Recording recording = weir::parse_recording(everything);
  const weir::SourceLocation given = recording.where(0, "file.json");
  EXPECT_STREQ(given.file_name(), "a dir/sim.cpp");
  EXPECT_EQ(given.line(), 61u);
  const weir::SourceLocation by_place = recording.where(3, "file.json");
  EXPECT_STREQ(by_place.file_name(), "file.json");
  EXPECT_EQ(by_place.line(), 4u);
  EXPECT_EQ(recording.id(0), "c0");
  EXPECT_EQ(recording.id(3), "#3");
}

Recording many(std::uint32_t commands, std::size_t limit) {
  Recording recording(limit);
  for (const char* name : {"s0", "s1", "s2", "s3"}) recording.add(recorded::Stream{.name = recording.intern(name)});
  for (int i = 0; i < 64; ++i) {
    recording.add(recorded::Buffer{.name = recording.intern("b" + std::to_string(i)), .bytes = 1 << 20});
  }
  const recorded::Name kernel = recording.intern("Advect"), file = recording.intern("sim.cpp");
  for (std::uint32_t i = 0; i < commands; ++i) {
    recorded::Command command{.name = kernel, .file = file, .line = 10 + i % 50, .stream = i % 4};
    command.id = recording.intern("c" + std::to_string(i));
    recorded::Use uses[8];
    for (std::uint32_t u = 0; u < 8; ++u) uses[u] = {.buffer = (i + u) % 64, .offset = 64 * (i % 512), .bytes = 64};
    recording.add(command, {.uses = uses, .cost = recorded::Cost{.ns = 1000.0 + i}});
  }
  return recording;
}

/// What the process has taken from the system's allocator.
std::size_t allocated() {
  const auto now = mallinfo2();
  return now.uordblks + now.hblkhd;
}

TEST(Recordings, keep_a_million_commands_of_8_arguments_in_200_bytes_each) {
  // Where memory is not counted, a tenth is enough.
  constexpr std::uint32_t commands = weir_test::under_address_sanitizer ? 100000 : 1000000;
  const std::size_t before = allocated();
  const Recording recording = many(commands, 200 * std::size_t{commands});
  EXPECT_EQ(recording.size(), commands);
  EXPECT_LE(recording.bytes(), 200u * commands);
  if (!weir_test::under_address_sanitizer &&
      !weir_test::under_thread_sanitizer) {  // which have allocators of their own
    EXPECT_LE(allocated() - before, 200u * commands) << "it takes more than it says";
    EXPECT_GE(allocated() - before, 20u * commands) << "that is where it is";
  }
  RecordProperty("bytes_per_command", static_cast<int>(recording.bytes() / commands));
  const recorded::Command& last = recording.command(commands - 1);
  EXPECT_EQ(recording.id(commands - 1), "c" + std::to_string(commands - 1));
  EXPECT_EQ(recording.cost(last)->ns, commands + 999.0);
  EXPECT_EQ(recording.use(last, 7).buffer, (commands - 1 + 7) % 64);
}

TEST(Recordings, are_read_as_a_stream_into_as_little_memory) {
  const Folder folder;
  constexpr std::uint32_t commands = weir_test::under_address_sanitizer ? 5000 : 20000;
  const Recording recording = many(commands, 200 * std::size_t{commands});
  weir::save(recording, folder / "many.json.gz");
  const Recording again = weir::load_recording(folder / "many.json.gz", {.limit = 250 * std::size_t{commands}});
  EXPECT_EQ(again.size(), commands);
  EXPECT_LE(again.bytes(), 200u * commands);
  EXPECT_EQ(to_json(again), to_json(recording));
}

TEST(Recordings, take_no_more_than_their_limit) {
  EXPECT_TRUE(fails_with(Errc::out_of_memory, [] { many(1000000, 50000000); }, {"50000000"}));
  Recording small(50000);
  small.add(recorded::Stream{.name = small.intern("s")});
  std::size_t added = 0;
  const auto fill = [&] {
    for (;; ++added) small.add(recorded::Command{.stream = 0});
  };
  EXPECT_TRUE(fails_with(Errc::out_of_memory, fill));
  EXPECT_EQ(small.size(), added) << "what does not fit is not added";
  EXPECT_LE(small.bytes(), 50000u);
}

}  // namespace
