// Generate, run, compare; on a difference, run again until it is known how often it shows, and shrink.
#include "campaign.hpp"

#include <algorithm>
#include <chrono>
#include <cstdlib>

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

std::optional<std::string> run_once(const Program& program) {
  return difference(program, interpret(program), execute(program));
}

/// A difference shown within that many runs.
std::optional<std::string> run_often(const Program& program, std::size_t times) {
  for (std::size_t i = 0; i < times; ++i) {
    if (auto text = run_once(program)) return text;
  }
  return std::nullopt;
}

/// How many runs show the failure with high probability; at least 3.
std::size_t runs_to_fail(const Program& program) {
  const auto end = Clock::now() + std::chrono::seconds(10);
  std::size_t runs = 0, failures = 0;
  while (runs < 300 && failures < 20 && Clock::now() < end) {
    ++runs;
    if (run_once(program)) ++failures;
  }
  return std::clamp<std::size_t>(failures == 0 ? runs : 4 * runs / failures, 3, 300);
}

std::string report(const Program& program, const std::string& first) {
  const std::size_t runs = runs_to_fail(program);
  const Program small = shrink(
      program, [&](const Program& p) { return run_often(p, runs).has_value(); }, std::chrono::seconds(60));
  const std::string now =
      run_often(small, 3 * runs).value_or("(not seen again in " + std::to_string(3 * runs) + " runs)");
  return "WEIR_SEED=" + std::to_string(program.seed) + " WEIR_PROGRAMS=1: " + first + "\nshrunk from " +
         std::to_string(program.commands.size()) + " commands to " + std::to_string(small.commands.size()) +
         ", tried " + std::to_string(runs) + " times each: " + now + "\n" + to_text(small);
}

}  // namespace

std::size_t program_count(std::size_t plain) {
  if (const auto count = from_environment("WEIR_PROGRAMS")) return static_cast<std::size_t>(*count);
  return weir_test::under_thread_sanitizer || weir_test::under_address_sanitizer ? plain / 6 : plain;
}

std::uint64_t first_seed() { return from_environment("WEIR_SEED").value_or(1); }

std::optional<std::string> run_campaign(const Theme& theme, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    const Program program = generate(theme, first_seed() + i);
    if (const auto text = run_once(program)) return report(program, *text);
  }
  return std::nullopt;
}

}  // namespace weir::stress
