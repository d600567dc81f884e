// What the benchmarks say: rows with a bound to reach, printed as a table and written as JSON.
#pragma once

#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "disturbance.hpp"
#include "measure.hpp"

namespace bench {

/// What a figure, or its ratio to the raw counterpart, must not miss.
struct Bound {
  enum class Of { value, ratio };
  Of of;
  bool at_least;
  double limit;
  std::string unit = {};  ///< of a value

  bool holds(double figure) const { return at_least ? figure >= limit : figure <= limit; }
  std::string text() const;
};
inline Bound ratio_at_least(double limit) { return {Bound::Of::ratio, true, limit}; }
inline Bound ratio_at_most(double limit) { return {Bound::Of::ratio, false, limit}; }
inline Bound at_least(double limit, std::string unit) { return {Bound::Of::value, true, limit, std::move(unit)}; }
inline Bound at_most(double limit, std::string unit) { return {Bound::Of::value, false, limit, std::move(unit)}; }

struct Row {
  std::string name;
  std::string work;
  std::string unit = {};
  Spread value = {};
  std::optional<Spread> raw = {};  ///< absent where there is no raw counterpart
  std::vector<Bound> reach = {};   ///< all of them; none for a row that only informs
  std::string note = {};           ///< what others need for the same
  bool skipped = false;            ///< not measured here; the note says why
  bool others_matter_not = false;  ///< it counts no time, or another process was busy on purpose
  std::string wrong = {};          ///< what of the work was not done
  double others = 0;               ///< cores that others took meanwhile

  /// Of the medians, ours to raw.
  std::optional<double> ratio() const;
  std::string reach_text() const;
  /// Its work was done, and it reaches what it must.
  bool ok() const;
  /// Others took so much meanwhile that its figure says little.
  bool disturbed() const { return !others_matter_not && others > 0.1; }
  std::string verdict() const;
};

/// Collects rows and failures, and says each as it comes.
class Report {
 public:
  explicit Report(std::ostream& out) : out_(out) {}

  /// What every row was measured on, for the JSON: the cores that the process may use, and the microseconds in which two
  /// spinning threads hand each other a task, which differ more between machines than anything else.
  void set_machine(int cores, double hand_over) {
    cores_ = cores;
    hand_over_ = hand_over;
  }
  /// With what was found wrong since the row before, and what others took.
  void add(Row row);
  /// A benchmark that could not run.
  void fail(const std::string& name, const std::string& why);
  /// A row that this machine cannot have.
  void skip(Row row, const std::string& why);
  bool all_ran() const { return failures_.empty(); }
  /// Whether every row that was measured reaches what it must.
  bool all_reached() const;
  /// The same, undisturbed, and none was skipped or could not run.
  bool all_proved() const;
  /// Of a sabotaged build; names the rows whose checks notice nothing.
  bool all_wrong() const;

  void print_table() const;
  void write_json(std::ostream& file) const;
  /// Throws if it cannot be written.
  void write_json(const std::string& path) const;

 private:
  std::ostream& out_;
  Disturbance disturbance_;  ///< since the last row
  int cores_ = 0;            ///< 0: not set
  double hand_over_ = 0;
  std::vector<Row> rows_;
  std::vector<std::string> failures_;
};

}  // namespace bench
