// Runs watched commands and judges their order.
#include "scenario.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <stdexcept>
#include <utility>

#include <fmt/format.h>

#include <weir/host_call.hpp>

#include "exit.hpp"

namespace tool {

namespace {

using namespace std::chrono_literals;

constexpr std::size_t cells = 64;
constexpr auto patience = 5s;        // for a command that nothing holds back
constexpr auto force_after = 10s;    // longer than one wait above, which reports more exactly
constexpr auto last_patience = 20s;  // for the end of all commands

}  // namespace

Scenario::Scenario(weir::Device device)
    : memory_(weir::zeros<std::uint32_t>(weir::pinned, cells)),
      board_{memory_.data()},
      witness_(device, {.blocking = false, .name = "witness"}) {
  // Loads the kernels now: a device may be unable to load one while another is running.
  std::atomic_ref(board_.cells[Board::gate]).store(1);
  tool::hold(witness_, board_, cells - 2, cells - 1);
  tool::mark(witness_, board_, cells - 1);
  witness_.synchronize();
  for (std::size_t cell = 0; cell < cells; ++cell) std::atomic_ref(board_.cells[cell]).store(0);
  guard_ = std::thread([this] { force_gate(); });
}

Scenario::~Scenario() {
  open_gate();
  guard_.join();
  for (const Step& step : steps_) {
    if (!stuck_ && !wait_for(step.end)) stuck_ = true;
  }
  // Commands that may still mark keep their memory.
  if (stuck_) new weir::Array<std::uint32_t>(std::move(memory_));
}

void Scenario::force_gate() {
  std::unique_lock lock(mutex_);
  if (opened_signal_.wait_for(lock, force_after, [this] { return opened_; })) return;
  forced_ = true;
  opened_ = true;
  std::atomic_ref(board_.cells[Board::gate]).store(1);
}

void Scenario::open_gate() {
  const std::lock_guard lock(mutex_);
  opened_ = true;
  std::atomic_ref(board_.cells[Board::gate]).store(1);
  opened_signal_.notify_all();
}

bool Scenario::unforced() const {
  const std::lock_guard lock(mutex_);
  return !forced_;
}

std::size_t Scenario::take_slot() {
  if (next_slot_ == cells) throw std::length_error("too many commands in one scenario");
  return next_slot_++;
}

Scenario::Step& Scenario::add_step(const Lane& lane, std::string name, bool held) {
  const std::size_t begin = take_slot();
  return steps_.emplace_back(Step{lane.label, std::move(name), begin, held ? take_slot() : begin});
}

void Scenario::hold(const Lane& lane, std::string name) {
  const Step& step = add_step(lane, std::move(name), true);
  tool::hold(lane.stream, board_, step.begin, step.end);
}

void Scenario::mark(const Lane& lane, std::string name) {
  tool::mark(lane.stream, board_, add_step(lane, std::move(name), false).begin);
}

void Scenario::host_mark(const Lane& lane, std::string name) {
  const std::size_t slot = add_step(lane, std::move(name), false).begin;
  weir::host_call(lane.stream, [board = board_, slot] {
    const std::uint32_t ticket = std::atomic_ref(board.cells[Board::tickets]).fetch_add(1) + 1;
    std::atomic_ref(board.cells[slot]).store(ticket);
  });
}

void Scenario::expect_during(std::string name, std::string held) {
  expectations_.push_back({std::move(name), std::move(held), true});
}

void Scenario::expect_after(std::string name, std::string earlier) {
  expectations_.push_back({std::move(name), std::move(earlier), false});
}

const Scenario::Step& Scenario::step(std::string_view name) const {
  const auto found = std::find_if(steps_.begin(), steps_.end(), [&](const Step& s) { return s.name == name; });
  if (found == steps_.end()) throw std::invalid_argument("no such command in this scenario");
  return *found;
}

std::uint32_t Scenario::ticket(std::size_t slot) const { return std::atomic_ref(board_.cells[slot]).load(); }

bool Scenario::wait_for(std::size_t slot) const {
  const auto deadline = std::chrono::steady_clock::now() + patience;
  while (ticket(slot) == 0) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::sleep_for(50us);
  }
  return true;
}

bool Scenario::begun(std::string_view name) const { return wait_for(step(name).begin); }

bool Scenario::expected_later(std::string_view name) const {
  return std::any_of(expectations_.begin(), expectations_.end(),
                     [&](const Expectation& e) { return !e.during && e.name == name; });
}

void Scenario::play() {
  // What must run while the gate is closed gets the time that it needs. What must not run has had a fair chance once a
  // command on an unrelated stream, issued after it, has run.
  bool as_expected = true;
  for (const Step& s : steps_) {
    if (s.begin != s.end && !expected_later(s.name)) as_expected = as_expected && wait_for(s.begin);
  }
  for (const Expectation& e : expectations_) {
    if (e.during) as_expected = as_expected && wait_for(step(e.name).begin);
  }
  const std::size_t witness_slot = take_slot();
  tool::mark(witness_, board_, witness_slot);
  wait_for(witness_slot);
  std::this_thread::sleep_for(5ms);
  open_gate();
  const auto deadline = std::chrono::steady_clock::now() + last_patience;
  for (const Step& s : steps_) {
    while (!wait_for(s.end)) {
      if (std::chrono::steady_clock::now() < deadline) continue;
      stuck_ = true;
      throw Stuck(s.name + " does not end although nothing holds it");
    }
  }
  judge();
}

void Scenario::judge() {
  for (const Expectation& e : expectations_) {
    const Step& a = step(e.name);
    const Step& b = step(e.other);
    if (e.during) {
      const bool kept = ticket(a.begin) < ticket(b.end);
      findings_.push_back(
          {fmt::format("{} {} while {} was held", e.name, kept ? "ran" : "did not run", e.other), kept});
    } else {
      const bool kept = ticket(a.begin) > ticket(b.end);
      findings_.push_back(
          {fmt::format("{} {} {} had ended", e.name, kept ? "waited until" : "ran before", e.other), kept});
    }
  }
  if (!unforced()) findings_.push_back({"a call blocked the host", false});
}

bool Scenario::kept() const {
  return std::all_of(findings_.begin(), findings_.end(), [](const Finding& f) { return f.kept; });
}

std::size_t Scenario::column(std::size_t slot) const {
  std::size_t earlier = 0;
  for (const Step& s : steps_) {
    if (ticket(s.begin) < ticket(slot)) ++earlier;
    if (s.end != s.begin && ticket(s.end) < ticket(slot)) ++earlier;
  }
  return earlier;
}

std::vector<std::string> Scenario::order() const {
  std::vector<std::pair<std::size_t, std::string>> found;
  for (const Step& s : steps_) {
    const bool held = s.begin != s.end;
    found.emplace_back(column(s.begin), held ? s.name + " begins" : s.name);
    if (held) found.emplace_back(column(s.end), s.name + " ends");
  }
  std::sort(found.begin(), found.end());
  std::vector<std::string> names;
  for (auto& [at, name] : found) names.push_back(std::move(name));
  return names;
}

std::string Scenario::draw_row(const std::string& lane, std::size_t width) const {
  std::string row(width * (order().size() + 1), ' ');
  for (const Step& s : steps_) {
    if (s.lane != lane) continue;
    const std::size_t begin = column(s.begin) * width;
    const std::size_t end = column(s.end) * width + (s.begin == s.end ? s.name.size() + 1 : width - 2);
    std::fill(row.begin() + static_cast<std::ptrdiff_t>(begin), row.begin() + static_cast<std::ptrdiff_t>(end), '=');
    row[begin] = '[';
    row.replace(begin + 1, s.name.size(), s.name);
    row[end] = ']';
  }
  return row.substr(0, row.find_last_not_of(' ') + 1);
}

std::string Scenario::picture() const {
  std::vector<std::string> lanes;
  std::size_t label_width = 0;
  std::size_t name_width = 0;
  for (const Step& s : steps_) {
    if (std::find(lanes.begin(), lanes.end(), s.lane) == lanes.end()) lanes.push_back(s.lane);
    label_width = std::max(label_width, s.lane.size());
    name_width = std::max(name_width, s.name.size());
  }
  std::string text;
  for (const std::string& lane : lanes) {
    text += fmt::format("  {:<{}}  |{}\n", lane, label_width, draw_row(lane, name_width + 3));
  }
  return text;
}

}  // namespace tool
