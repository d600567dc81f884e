// Expecting a weir::Error: its code, and what its message must name.
#pragma once

#include <gtest/gtest.h>

#include <exception>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>

#include <weir/weir.hpp>

namespace weir_test {

/// The weir::Error that a call throws; nothing if it throws none. Other exceptions pass.
template <class Call>
std::optional<weir::Error> error_of(Call&& call) {
  try {
    call();
  } catch (const weir::Error& error) {
    return error;
  }
  return std::nullopt;
}

/// Whether a call throws weir::Error with this code and a message that contains each of `words`.
template <class Call>
testing::AssertionResult fails_with(weir::Errc code, Call&& call, std::initializer_list<std::string_view> words = {}) {
  try {
    call();
  } catch (const weir::Error& error) {
    if (error.errc() != code) {
      return testing::AssertionFailure() << "expected '" << weir::make_error_code(code).message()
                                         << "', got: " << error.what();
    }
    for (std::string_view word : words) {
      if (std::string_view(error.what()).find(word) == std::string_view::npos) {
        return testing::AssertionFailure() << "the message does not name '" << word << "': " << error.what();
      }
    }
    return testing::AssertionSuccess();
  } catch (const std::exception& other) {
    return testing::AssertionFailure() << "expected weir::Error, got: " << other.what();
  }
  return testing::AssertionFailure() << "expected '" << weir::make_error_code(code).message()
                                     << "', but nothing was thrown";
}

}  // namespace weir_test
