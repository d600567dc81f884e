// Commands whose order is watched: some are held until a gate opens, and what ran meanwhile shows which rules hold.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include <weir/array.hpp>
#include <weir/stream.hpp>

#include "work.hpp"

namespace tool {

/// A stream and what a picture calls it.
struct Lane {
  weir::StreamRef stream;
  std::string label = {};
};

/// Issue commands by hold, mark, host_mark and any Weir calls; say what is expected; then play() once.
/// Times decide nothing: a command that must run while another is held is waited for, and the order of all others is
/// read from tickets that they draw as they run. If a call of the library blocks the host while the gate is closed, the
/// gate is forced open after a while, and that is a finding.
class Scenario {
 public:
  explicit Scenario(weir::Device device);
  /// Opens the gate and waits for its commands.
  ~Scenario();
  Scenario(const Scenario&) = delete;
  Scenario& operator=(const Scenario&) = delete;

  /// A kernel that begins, waits for the gate, and ends.
  void hold(const Lane& lane, std::string name);
  /// A kernel that runs and ends.
  void mark(const Lane& lane, std::string name);
  /// A host function that runs and ends.
  void host_mark(const Lane& lane, std::string name);

  /// `name` runs while `held` is held.
  void expect_during(std::string name, std::string held);
  /// `name` runs when `earlier` has ended.
  void expect_after(std::string name, std::string earlier);

  /// Waits until the command has begun; false if it does not within the patience of a watchdog.
  bool begun(std::string_view name) const;
  /// Whether no call blocked the host until now.
  bool unforced() const;
  /// Opens the gate when all that is expected to run before has run. Throws Stuck.
  void play();

  struct Finding {
    std::string text;
    bool kept;
  };
  /// One for each expectation, and one for a forced gate. After play().
  const std::vector<Finding>& findings() const { return findings_; }
  bool kept() const;
  /// "K1 begins", "K2", "K1 ends": what happened, in its order.
  std::vector<std::string> order() const;
  /// Streams as rows, time from left to right, each line indented by two spaces.
  std::string picture() const;

 private:
  struct Step {
    std::string lane;
    std::string name;
    std::size_t begin;  ///< slots of the board
    std::size_t end;
  };
  struct Expectation {
    std::string name;
    std::string other;
    bool during;
  };

  std::size_t take_slot();
  Step& add_step(const Lane& lane, std::string name, bool held);
  const Step& step(std::string_view name) const;
  std::uint32_t ticket(std::size_t slot) const;
  bool wait_for(std::size_t slot) const;
  /// Whether it is expected to wait for another command, so that it need not begin while the gate is closed.
  bool expected_later(std::string_view name) const;
  void open_gate();
  void force_gate();
  void judge();
  std::size_t column(std::size_t slot) const;
  std::string draw_row(const std::string& lane, std::size_t width) const;

  weir::Array<std::uint32_t> memory_;
  Board board_;
  std::size_t next_slot_ = Board::first_slot;
  weir::Stream witness_;
  std::vector<Step> steps_;
  std::vector<Expectation> expectations_;
  std::vector<Finding> findings_;
  bool stuck_ = false;
  bool opened_ = false;

  mutable std::mutex mutex_;
  std::condition_variable opened_signal_;
  bool forced_ = false;  ///< guarded by mutex_, as is opened_ once guard_ runs
  std::thread guard_;
};

}  // namespace tool
