// Calls that must fail, made and compared with what was expected.
#include "support/errors.hpp"

#include <exception>

namespace weir_test {

std::optional<weir::Error> error_of(FunctionRef<void> call) {
  try {
    call();
  } catch (const weir::Error& error) {
    return error;
  }
  return std::nullopt;
}

testing::AssertionResult fails_with(weir::Errc code, FunctionRef<void> call,
                                    std::initializer_list<std::string_view> words) {
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
