// Generate, run, compare; on a difference, run again until it is known how often it shows, and shrink.
#include "campaign.hpp"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <numeric>
#include <random>

#include "execute.hpp"
#include "generate.hpp"
#include "interpret.hpp"
#include "shrink.hpp"
#include "support/sanitizers.hpp"

namespace weir::stress {

namespace {

using Clock = std::chrono::steady_clock;

std::optional<std::uint64_t> from_environment(const char* name) {
  const char* text = std::getenv(name);
  if (text == nullptr || *text == '\0') return std::nullopt;
  return std::strtoull(text, nullptr, 10);
}

std::optional<std::string> run_once(const Program& program, const Execute& machine) {
  return difference(program, interpret(program), machine(program));
}

/// A difference shown within that many runs.
std::optional<std::string> run_often(const Program& program, std::size_t times, const Execute& machine) {
  for (std::size_t i = 0; i < times; ++i) {
    if (auto text = run_once(program, machine)) return text;
  }
  return std::nullopt;
}

/// How many runs show the failure with high probability; at least 3.
std::size_t runs_to_fail(const Program& program, const Execute& machine) {
  const auto end = Clock::now() + std::chrono::seconds(10);
  std::size_t runs = 0, failures = 0;
  while (runs < 300 && failures < 20 && Clock::now() < end) {
    ++runs;
    if (run_once(program, machine)) ++failures;
  }
  return std::clamp<std::size_t>(failures == 0 ? runs : 4 * runs / failures, 3, 300);
}

std::string report(const Program& program, const std::string& first, const Execute& machine) {
  const std::size_t runs = runs_to_fail(program, machine);
  const Program small = shrink(
      program, [&](const Program& p) { return run_often(p, runs, machine).has_value(); }, std::chrono::seconds(60));
  const std::string now =
      run_often(small, 3 * runs, machine).value_or("(not seen again in " + std::to_string(3 * runs) + " runs)");
  return "WEIR_SEED=" + std::to_string(program.seed) + " WEIR_PROGRAMS=1: " + first + "\nshrunk from " +
         std::to_string(program.commands.size()) + " commands to " + std::to_string(small.commands.size()) +
         ", tried " + std::to_string(runs) + " times each: " + now + "\n" + to_text(small);
}

}  // namespace

std::size_t program_count(std::size_t plain) {
  if (const auto count = from_environment("WEIR_PROGRAMS")) return static_cast<std::size_t>(*count);
  return weir_test::under_thread_sanitizer || weir_test::under_address_sanitizer ? plain / 10 : plain;
}

std::uint64_t first_seed() { return from_environment("WEIR_SEED").value_or(1); }

std::uint64_t new_seed() { return 1'000'000 + std::random_device{}(); }

std::uint64_t fresh_seed() {
  static const std::uint64_t seed = [] {
    const std::uint64_t fresh = new_seed();
    std::printf("seeds of this run alone begin with %llu\n", static_cast<unsigned long long>(fresh));
    std::fflush(stdout);
    return fresh;
  }();
  return seed;
}

std::vector<std::uint64_t> seeds_of(std::size_t count) {
  std::vector<std::uint64_t> seeds(count);
  const std::size_t fixed = from_environment("WEIR_SEED") ? count : count - count / 4;
  std::iota(seeds.begin(), seeds.begin() + static_cast<std::ptrdiff_t>(fixed), first_seed());
  if (fixed != count) std::iota(seeds.begin() + static_cast<std::ptrdiff_t>(fixed), seeds.end(), fresh_seed());
  return seeds;
}

std::optional<std::string> run_campaign(const Theme& theme, std::size_t count, const Execute& machine) {
  for (const std::uint64_t seed : seeds_of(count)) {
    const Program program = generate(theme, seed);
    if (const auto text = run_once(program, machine)) return report(program, *text, machine);
  }
  return std::nullopt;
}

std::optional<std::string> run_campaign(const Theme& theme, std::size_t count) {
  return run_campaign(theme, count, [](const Program& program) { return execute(program); });
}

}  // namespace weir::stress
