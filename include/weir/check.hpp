// The hazard checker: uses of memory that nothing orders, found from a program's commands alone, and the lines that mend them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <iosfwd>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <weir/recording.hpp>
#include <weir/scenario.hpp>
#include <weir/source_location.hpp>

namespace weir {

/// In the order in which one finding's kind is chosen; docs/checking.md tells each.
enum class FindingKind : std::uint8_t {
  use_before_alloc,
  use_after_free,
  free_before_alloc,
  read_after_write,
  write_after_write,
  write_after_read,
  misuse,
  deadlock,  ///< collectives that wait for each other in a circle: `second` closes it, and waits for `first`
  uninitialised_read,
  overlapping_arguments,
  leak,
  redundant_wait,
  empty_wait,
};
inline constexpr std::size_t finding_kind_count = 13;
enum class Severity : std::uint8_t { error, warning, hint };
/// Whose calls are ordered without a stream between them: each thread's own, and hand-offs; or all, in the order of the calls.
enum class HostOrder : std::uint8_t { observed, declared };

/// The word for it in reports.
std::string_view to_text(FindingKind kind);
std::string_view to_text(Severity severity);
std::string_view to_text(HostOrder order);

/// One of the two uses that a finding is about.
struct Side {
  std::string command;  ///< its id
  std::string node;     ///< of a graph launch: the path of the node
  std::string op;
  std::string name;    ///< of a kernel or host function
  std::string stream;  ///< empty where none takes part
  std::string device;
  std::string thread_name;
  std::string file;
  std::string access;  ///< "in", "out", "inout", "accumulate"; empty where the command as a whole is meant
  std::uint32_t line = 0;
  std::uint32_t thread = 0;
  std::uint32_t use = 0;  ///< place among the command's regions
  bool host = false;      ///< made by the host thread itself
};

/// The memory that a finding is about.
struct FindingBuffer {
  std::string name;
  std::uint64_t id = 0;
  std::uint64_t bytes = 0;
  std::string file;
  std::uint32_t line = 0;
};

/// A change of the program that removes a finding.
struct Mend {
  struct Line {
    bool before = true;  ///< else after the line
    std::string file;
    std::uint32_t line = 0;
    std::string text;
  };
  /// A command for a scenario: a record, a wait or a synchronisation beside the command with this id.
  struct Insert {
    bool before = true;
    std::string command;
    std::string op;
    std::string stream;
    std::string event;
    std::string other;   ///< the stream that is waited for
    std::string thread;  ///< empty where the program has one
  };
  /// A dependency between two nodes of a graph that was built.
  struct Edge {
    std::string graph;
    std::string node;
    std::string after;
  };
  bool verified = false;  ///< evaluated again with the order added
  std::vector<Line> code;
  std::vector<Insert> insert;
  std::vector<Edge> edges;
};

/// What a finding may lack: a leak has one side, and most warnings no mend. It is a T, an empty one where it is lacking, and is
/// asked and followed like a pointer.
template <class T>
class FindingPart : public T {
 public:
  FindingPart() = default;
  FindingPart(T part) : T(std::move(part)), there_(true) {}

  explicit operator bool() const { return there_; }
  bool has_value() const { return there_; }
  const T& operator*() const { return *this; }
  T& operator*() { return *this; }
  const T* operator->() const { return this; }
  T* operator->() { return this; }

 private:
  bool there_ = false;
};

struct Finding {
  FindingKind kind = FindingKind::misuse;
  std::vector<FindingKind> also;
  Severity severity = Severity::error;
  std::uint64_t count = 1;
  std::string key;  ///< equal for equal findings, in every run and on every backend
  FindingPart<Side> first;
  FindingPart<Side> second;
  FindingPart<FindingBuffer> buffer;
  std::vector<std::pair<std::uint64_t, std::uint64_t>> bytes;  ///< half-open, sorted, from the start of the memory
  std::uint64_t bytes_total = 0;
  std::string why;
  FindingPart<Mend> mend;
  std::string errc;  ///< of misuse: the name in weir::Errc
  std::string what;  ///< of misuse: the error's text
};
/// Several lines of plain words.
std::string to_text(const Finding& finding);

/// What was not checked, and why.
struct Unchecked {
  std::string what;
  std::string why;
  std::uint64_t count = 1;
};

/// What a Checker does with what it finds.
enum class CheckMode : std::uint8_t {
  print,        ///< to stderr, once for each key; totals when it ends
  collect,      ///< keeps it
  throw_error,  ///< refuses the call that would complete an error-level finding, which throws Errc::hazard; prints the rest
};

struct CheckOptions {
  CheckMode mode = CheckMode::print;  ///< of a Checker, as memory_limit, sink and leaks
  HostOrder host_order = HostOrder::observed;
  bool hints = false;
  std::size_t max_findings = 1000;  ///< 0: no limit
  /// In bytes. Once it is reached, earlier uses of memory are forgotten, which the report says, and races with them are not told.
  std::size_t memory_limit = std::size_t{256} << 20;
  std::string suppressions = {};  ///< the text of a file of them
  /// Told of each key at its first sight, in the call; not to call Weir.
  std::function<void(const Finding&)> sink = nullptr;
  /// At the end, also what pools allocated and nobody freed, guards that are open, and captures that never ended: warnings.
  bool leaks = false;
  std::string suppressions_name = "suppressions";  ///< stands for that file in messages
};

struct CheckReport {
  std::string program;
  std::string device;
  HostOrder host_order = HostOrder::declared;
  int program_exit = 0;
  std::vector<Finding> findings;
  std::vector<Unchecked> unchecked;
  std::vector<std::string> unmatched_suppressions;
  std::uint64_t commands = 0;
  std::uint64_t errors = 0;
  std::uint64_t warnings = 0;
  std::uint64_t hints = 0;
  std::uint64_t suppressed = 0;
  std::uint64_t dropped = 0;  ///< beyond max_findings
};
/// One line, one JSON object: "weir.findings", version 1.
std::string to_json(const CheckReport& report);
/// For people; the findings, what was not checked, and totals.
std::string to_text(const CheckReport& report);

/// The totals alone, and what was not checked.
std::string totals(const CheckReport& report);

struct CheckStatistics {
  std::uint64_t commands = 0;  ///< that were checked
  std::size_t accesses = 0;    ///< uses that later ones are compared with
  std::size_t bytes = 0;       ///< that those and the names take
};

/// Checks the process from its construction to finish(), for any backend, and keeps no program: docs/checking.md. Nothing
/// but refused calls (CheckMode::throw_error) changes for the program. Those are launches, of graphs too, copies, fills, host
/// functions, external work, collectives, frees, guards and host_gone(); what arrays complete that go out of scope is printed. Work
/// older than the checker counts as done.
/// Thread rule: any threads may use Weir meanwhile, and ask; construction, finish() and destruction are one thread's.
class Checker {
 public:
  /// Throws invalid_value for suppressions that cannot be read.
  explicit Checker(const CheckOptions& options = {}, SourceLocation where = SourceLocation::current());
  ~Checker();
  Checker(const Checker&) = delete;
  Checker& operator=(const Checker&) = delete;

  /// So far; hints are found by finish().
  std::vector<Finding> findings() const;
  std::size_t errors() const;
  CheckStatistics statistics() const;
  CheckReport report() const;
  /// One line: to_json(report()).
  void write_json(std::ostream& out) const;
  /// Forgets the findings, not what the program did.
  void clear();
  /// Stops checking, and adds the findings that only the end shows. A second call does nothing.
  void finish();
  /// Whether a checker is watching this process.
  static bool armed();

 private:
  class State;
  std::unique_ptr<State> state_;
};

namespace check {
class ScenarioFeed;
}

/// Checks a scenario as it runs: given to run_scenario as hooks, it is told of each call in turn, and of what the library
/// refused. Thread rule: as RunHooks. The recording must outlive it.
class ScenarioChecker final : public RunHooks {
 public:
  /// `file` is what lines of commands without a file of their own are of, `device` where the scenario's first device is.
  /// Throws invalid_value for suppressions that cannot be read.
  ScenarioChecker(const Recording& recording, const CheckOptions& options = {}, std::string file = "scenario",
                  std::string device = "cpu", SourceLocation where = SourceLocation::current());
  ~ScenarioChecker() override;

  /// What RunHooks are told: a call of the scenario, with what the library refused of it.
  void after(std::size_t command, const Misuse* misuse) override;
  /// All calls as if the library took them, but those of `refused`.
  void all(const std::vector<Misuse>& refused = {});
  CheckReport report() const;

 private:
  const Recording* recording_;
  std::unique_ptr<check::ScenarioFeed> feed_;
};

}  // namespace weir
