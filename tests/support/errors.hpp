// Expecting a weir::Error: its code, and what its message must name.
#pragma once

#include <gtest/gtest.h>

#include <initializer_list>
#include <optional>
#include <string_view>

#include <weir/weir.hpp>

#include "support/function_ref.hpp"

namespace weir_test {

/// The weir::Error that a call throws; nothing if it throws none. Other exceptions pass.
std::optional<weir::Error> error_of(FunctionRef<void> call);

/// Whether a call throws weir::Error with this code and a message that contains each of `words`.
testing::AssertionResult fails_with(weir::Errc code, FunctionRef<void> call,
                                    std::initializer_list<std::string_view> words = {});

}  // namespace weir_test
