// Sessions that host functions, which may not call Weir, try to end.
#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>

#include <unistd.h>

#include <gtest/gtest.h>

#include <weir/trace.hpp>
#include <weir/weir.hpp>

namespace {

using weir::trace::Session;

TEST(TraceSession, that_a_host_function_tries_to_stop_goes_on) {
  weir::Stream s(weir::device("cpu"));
  auto session = std::make_unique<Session>();
  weir::Errc errc{};
  weir::host_call(s, [&] {
    try {
      session->stop();
    } catch (const weir::Error& error) {
      errc = error.errc();
    }
  });
  s.synchronize();
  EXPECT_EQ(errc, weir::Errc::not_permitted);
  weir::launch(s, 1, [](std::size_t) {});
  s.synchronize();
  EXPECT_EQ(session->stop().commands.size(), 2u);
  session.reset();
  weir::launch(s, 1, [](std::size_t) {});  // nobody is told who is gone
  s.synchronize();
}

TEST(TraceSession, that_a_host_function_destroys_has_written_its_file_and_leaves_nobody_who_is_gone) {
  const auto path = std::filesystem::temp_directory_path() / ("in_host" + std::to_string(getpid()) + ".json");
  weir::Stream s(weir::device("cpu"));
  const std::uint64_t id = s.id();
  auto session = std::make_unique<Session>(weir::trace::SessionOptions{.file = path});
  weir::launch(s, 1, [](std::size_t) {});
  weir::host_call(s, [&] { session.reset(); });
  s.synchronize();
  weir::launch(s, 1, [](std::size_t) {});
  s.synchronize();
  const weir::trace::Timeline timeline = weir::trace::load(path);
  // Other tests' memory may end meanwhile.
  const auto of_stream = std::count_if(timeline.commands.begin(), timeline.commands.end(),
                                       [&](const auto& one) { return timeline.streams[one.stream].id == id; });
  EXPECT_EQ(of_stream, 2);
  EXPECT_EQ(timeline.note, "");
  std::filesystem::remove(path);
}

}  // namespace
