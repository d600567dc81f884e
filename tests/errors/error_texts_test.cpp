// What errors say is printed by whoever catches them, or nobody does: names in it are not obeyed by a terminal.
#include <gtest/gtest.h>

#include <stdexcept>
#include <string>

#include <weir/weir.hpp>

namespace {

bool has_control(const std::string& text) {
  return text.find_first_of(std::string("\x1b\r\n\t\x7f\0", 6)) != std::string::npos;
}

const std::string name("a\x1b[2J\r\nb\0c\x7f", 11);
const std::string shown = "a\\x1b[2J\\x0d\\nb\\x00c\\x7f";

template <class Call>
weir::Error error_of(const Call& call) {
  try {
    call();
  } catch (const weir::Error& error) {
    return error;
  }
  throw std::logic_error("nothing was thrown");
}

TEST(ErrorTexts, show_the_names_of_streams_and_do_not_have_them_obeyed) {
  weir::Stream stream(weir::device("cpu"), {.name = name});
  weir::host_call(stream, [] { throw std::runtime_error("\x1b[2J"); });
  const weir::Error error = error_of([&] { stream.synchronize(); });
  EXPECT_NE(std::string(error.what()).find(shown), std::string::npos) << error.what();
  EXPECT_FALSE(has_control(error.what())) << error.what();
}

TEST(ErrorTexts, show_the_names_of_arrays) {
  weir::Stream stream(weir::device("cpu"));
  auto x = weir::zeros<int>(stream, 4);
  x.set_name(name);
  const weir::Error error = error_of([&] {
    x.free();
    x.free();
  });
  EXPECT_FALSE(has_control(error.what())) << error.what();
}

TEST(ErrorTexts, show_the_names_of_devices_and_files) {
  for (const std::string& asked : {name, "sim:/nowhere/" + name + ".json"}) {
    const weir::Error error = error_of([&] { static_cast<void>(weir::device(asked)); });
    EXPECT_NE(std::string(error.what()).find(shown), std::string::npos) << error.what();
    EXPECT_FALSE(has_control(error.what())) << error.what();
  }
}

TEST(ErrorTexts, keep_the_lines_of_a_message) {
  const weir::Error error(weir::Errc::invalid_value, "a call", "an\nobject", "wrong:\n  first\x1b\n  second", {});
  EXPECT_EQ(std::string(error.what()).find("a call: an\\nobject: wrong:\n  first\\x1b\n  second"), 0u) << error.what();
  EXPECT_EQ(error.object(), "an\nobject");  // as it is, for programs
}

}  // namespace
