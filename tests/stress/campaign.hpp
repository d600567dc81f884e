// Runs many random programs of one kind, and reports the first that goes wrong, made small.
#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include "builder.hpp"

namespace weir::stress {

/// How many programs a test runs: WEIR_PROGRAMS if set, else `plain`, or fewer where a sanitizer slows them down.
std::size_t program_count(std::size_t plain);
/// The seed of a test's first program: WEIR_SEED, else always the same.
std::uint64_t first_seed();

/// Generates and runs `count` programs on the library, and compares each with the sequential interpreter.
/// What went wrong: the difference, the seed, the program made small.
std::optional<std::string> run_campaign(const Theme& theme, std::size_t count);

}  // namespace weir::stress
