// The demos: each runs with its options and says how it went; `weir demo` runs them all.
#pragma once

#include <cstdint>
#include <string>

#include "session.hpp"

namespace tool {

/// What a demo found, for its own JSON and for the table of all.
struct DemoResult {
  std::string name;
  std::string what;   ///< "20,000,000 doubles, 5 streams"
  double one_ms = 0;  ///< 0: this demo takes no times
  double many_ms = 0;
  bool good = false;  ///< correct, or all rules kept
  Json json = {};
  bool speaks = true;  ///< one of several processes prints for all
};

struct VaddOptions {
  static constexpr std::int64_t small_n = 1'000'003;
  std::int64_t n = 20'000'000;
  std::int64_t streams = 5;
  std::int64_t repeat = 5;
};
struct NormalizeOptions {
  static constexpr std::int64_t small_n = 100'000;
  std::int64_t arrays = 10;
  std::int64_t n = 2'000'000;
  std::int64_t repeat = 5;
};
struct PrefetchOptions {
  static constexpr std::int64_t small_n = 100'000;
  std::int64_t batches = 16;
  std::int64_t n = 2'000'000;
  std::int64_t repeat = 5;
};
struct HeatOptions {
  static constexpr std::int64_t small_size = 258;
  std::int64_t size = 4096;
  std::int64_t steps = 20;
  std::int64_t ranks = 0;  ///< one for each device, two at least
  std::int64_t repeat = 3;
};

/// Each says what it does unless the session wants JSON. Throws UsageError for options that make no sense.
DemoResult run_vadd(const Session& session, const VaddOptions& options);
DemoResult run_normalize(const Session& session, const NormalizeOptions& options);
DemoResult run_prefetch(const Session& session, const PrefetchOptions& options);
DemoResult run_heat(const Session& session, const HeatOptions& options);
DemoResult run_default_stream(const Session& session);

void add_vadd(const Command& demo, Session& session);
void add_normalize(const Command& demo, Session& session);
void add_prefetch(const Command& demo, Session& session);
void add_heat(const Command& demo, Session& session);
void add_default_stream(const Command& demo, Session& session);
void add_overlap(const Command& demo, Session& session);

/// Those of all commands, --trace and --small: before the demo's name and behind it.
void add_demo_options(const Command& command, Session& session);
/// A demo's size with --small, unless the option says how large.
void make_small(const Session& session, const Command& command, const char* option, std::int64_t& size,
                std::int64_t small);

/// Why a CPU gains less than a GPU, as a line; empty for other devices.
std::string overlap_note(weir::Device device);

/// Prints the JSON if wanted, and turns a result into an exit code.
Exit finish_demo(const Session& session, const DemoResult& result);

}  // namespace tool
