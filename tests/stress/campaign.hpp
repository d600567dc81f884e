// Runs many random programs of one kind, and reports the first that goes wrong, made small.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "builder.hpp"
#include "interpret.hpp"

namespace weir::stress {

/// How many programs a test runs: WEIR_PROGRAMS if set, else `plain`, or fewer where a sanitizer slows them down.
std::size_t program_count(std::size_t plain);
/// The seed of a test's first program: WEIR_SEED, else always the same.
std::uint64_t first_seed();
/// The seeds of a campaign: from WEIR_SEED on; else mostly the same ones each time, and some that no run had before.
std::vector<std::uint64_t> seeds_of(std::size_t count);
/// The first of this run's own seeds; said on stdout.
std::uint64_t fresh_seed();
/// Another one each time.
std::uint64_t new_seed();

using Execute = std::function<Outcome(const Program&)>;

/// Generates and runs `count` programs on the library, or on another machine, and compares each with the sequential interpreter.
/// What went wrong: the difference, the seed, the program made small.
std::optional<std::string> run_campaign(const Theme& theme, std::size_t count);
std::optional<std::string> run_campaign(const Theme& theme, std::size_t count, const Execute& machine);

}  // namespace weir::stress
