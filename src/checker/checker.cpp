// The checker of a running process: an observer for all that happens, and a policy for what it refuses.
#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <exception>
#include <mutex>
#include <ostream>
#include <string>
#include <utility>

#include <unistd.h>

#include <weir/check.hpp>
#include <weir/error.hpp>
#include <weir/observer.hpp>

#include "check/collect.hpp"
#include "checker/live_engine.hpp"
#include "recording/translator.hpp"

namespace weir {

namespace {

std::atomic<int> watching{0};

/// Made before the translator that tells it.
struct HasEngine {
  HasEngine(const CheckOptions& options, std::function<void(Finding)> found) : engine(options, std::move(found)) {}
  check::LiveEngine engine;
};

}  // namespace

class Checker::State final : private HasEngine, public recorded::Translator, public OrderPolicy {
 public:
  State(const CheckOptions& options, SourceLocation where)
      : HasEngine(options, [this](Finding finding) { found(std::move(finding)); }),
        Translator(engine, {.for_people = true}),
        options_(options),
        collector_(options, where) {
    engine.use(objects());
  }

  void begin(SourceLocation where) {
    start(Watch::commands | Watch::memory | Watch::host | Watch::graphs, where);
    if (options_.mode == CheckMode::throw_error) attach(static_cast<OrderPolicy&>(*this), where);
    ++watching;
  }
  void end() {
    if (ended_ || !here()) return;
    // Inside a host function this throws, and nothing has changed.
    if (options_.mode == CheckMode::throw_error) detach(static_cast<OrderPolicy&>(*this));
    detach(static_cast<Observer&>(*this));
    ended_ = true;
    --watching;
    keep_late([this] { engine.finish(); });
    if (options_.mode != CheckMode::collect) print(totals(report()));
  }

  bool ended() const { return ended_ || !here(); }

  CheckReport report() const {
    if (!here()) return {};
    const std::lock_guard lock(mutex_);
    CheckReport made = collector_.report();
    made.program = program_invocation_short_name;
    made.device = engine.device();
    made.host_order = options_.host_order;
    made.unchecked = engine.unchecked();
    if (!stopped_.empty()) made.unchecked.push_back({"commands", stopped_, missed_});
    made.commands = engine.commands();
    return made;
  }
  std::size_t errors() const {
    if (!here()) return 0;
    const std::lock_guard lock(mutex_);
    return collector_.so_far().errors;
  }
  CheckStatistics statistics() const {
    if (!here()) return {};
    const std::lock_guard lock(mutex_);
    return {engine.commands(), engine.accesses(), engine.bytes() + bytes()};
  }
  void clear() {
    if (!here()) return;
    const std::lock_guard lock(mutex_);
    collector_.clear();
  }

  void submitted(const Command& command) override {
    // That a collective orders streams the engine knows better: what came behind a part meanwhile is no part of it.
    const auto* const wait = std::get_if<Wait>(&command.op);
    if (wait != nullptr && wait->event == nullptr && command.graph == 0) return;
    const bool is_collective = std::holds_alternative<Collective>(command.op);
    if (is_collective && command.graph == 0) keep_late([&] { engine.expect_collective(command.id); });
    Translator::submitted(command);
  }

  /// unpin() has waited for all that used it.
  void unpinned(const void* data, std::size_t bytes, SourceLocation where, std::uint32_t thread) override {
    keep_late([&] {
      for (const recorded::MemoryMap::Part& part : objects().parts_of(data, bytes)) engine.unpinned(part);
    });
    Translator::unpinned(data, bytes, where, thread);
  }
  void named(BufferId id, std::string_view name) override {
    keep_late([&] { engine.name(objects().memory().place_of(id), name); });
  }
  void exchanged(BufferId id, bool imported, SourceLocation where) override {
    keep_late([&] { engine.exchanged(objects().memory().place_of(id), imported, where); });
  }
  void shared(StreamId id, SourceLocation where) override {
    keep_late([&] {
      if (const std::uint32_t stream = objects().stream(id); stream != recorded::none) engine.shared(stream, where);
    });
  }

  void capture_began(std::uint64_t capture, StreamId stream, SourceLocation where) override {
    keep_late([&] { engine.capture_began(capture, objects().stream(stream), where); });
  }
  void capture_ended(std::uint64_t capture, bool, SourceLocation) override {
    keep_late([&] { engine.capture_ended(capture); });
  }

  void before(const Command& command, Waits&) override {
    const bool decides = std::holds_alternative<Launch>(command.op) || std::holds_alternative<Copy>(command.op) ||
                         std::holds_alternative<Fill>(command.op) || std::holds_alternative<HostCall>(command.op) ||
                         std::holds_alternative<External>(command.op) ||
                         std::holds_alternative<Collective>(command.op) ||
                         std::holds_alternative<GraphLaunch>(command.op) || std::holds_alternative<Free>(command.op);
    if (!decides || command.graph != 0) return;  // what is captured does not run
    refuse_if_found(command.where, [&] {
      std::vector<recorded::Use> uses;
      const recorded::Command made = translated(command, uses, false);
      const bool unknown = made.target_kind != recorded::Target::none && made.target == recorded::none;
      std::optional<recorded::Collective> part;
      if (std::holds_alternative<Collective>(command.op)) part = collective(command);
      if (made.op != recorded::Op::empty && !unknown) engine.try_command(made, uses, command.id, part);
    });
  }
  void before(const HostAccess& access) override {
    refuse_if_found(access.where, [&] {
      std::vector<recorded::Use> uses;
      const recorded::Command made = translated(access, uses);
      engine.try_command(made, uses, 0);
    });
  }
  void before_host_gone(const void* data, std::size_t bytes, SourceLocation where, std::uint32_t thread) override {
    refuse_if_found(where, [&] {
      for (const auto& [command, part] : ends_of(data, bytes, where, thread)) {
        if (part.whole) {
          engine.try_command(command, {}, 0);
        } else {
          engine.try_part_gone(command, part.begin, part.end);
        }
      }
    });
  }

 private:
  /// Not in a forked child: it has the parent's checker, whose lock another thread may have held, and what that found is the
  /// parent's to say. Commands are refused there.
  bool here() const { return getpid() == process_; }

  void keep(const Work& add) noexcept override {
    std::vector<Finding> fresh;
    {
      const std::lock_guard lock(mutex_);
      if (stopped_.empty() && engine.commands() >= next_look_) look_at_memory();
      if (!stopped_.empty()) {
        ++missed_;
        return;
      }
      run(add);
      fresh.swap(fresh_);
    }
    tell(fresh);
  }
  void keep_late(const Work& late) noexcept override {
    if (!here()) return;
    std::vector<Finding> fresh;
    {
      const std::lock_guard lock(mutex_);
      if (!stopped_.empty()) return;
      run(late);
      fresh.swap(fresh_);
    }
    tell(fresh);
  }
  /// To look takes as long as there are accesses.
  void look_at_memory() {
    next_look_ = engine.commands() + std::max<std::uint64_t>(commands_between_looks, engine.accesses() / 16);
    if (engine.bytes() + bytes() <= options_.memory_limit) return;
    engine.forget_uses();
    if (engine.bytes() + bytes() > options_.memory_limit) stop("the memory limit was reached");
  }
  /// What fails half way leaves an engine that knows only half.
  void run(const Work& work) noexcept {
    try {
      work();
    } catch (const std::exception& error) {
      stop(error.what());
    }
  }
  void stop(const char* why) {
    stopped_ =
        std::string(why) + ": what came after " + std::to_string(engine.commands()) + " commands was not checked";
  }

  void refuse_if_found(SourceLocation where, const Work& attempt) {
    std::optional<Finding> refused;
    bool is_new = false;
    {
      const std::lock_guard lock(mutex_);
      if (!stopped_.empty()) return;
      trying_ = true;
      run(attempt);
      trying_ = false;
      refused = std::exchange(tried_, std::nullopt);
      engine.end_attempt(refused.has_value());
      if (refused) is_new = collector_.add(*refused);
    }
    if (!refused) return;
    if (is_new) tell_sink(*refused);
    throw Error(Errc::hazard, "weir::Checker", refused->buffer ? "\"" + refused->buffer->name + "\"" : "the command",
                "the call is refused, nothing has changed\n" + to_text(*refused), where);
  }

  /// Under the lock.
  void found(Finding finding) {
    if (trying_) {
      if (finding.severity == Severity::error && !tried_ && !collector_.suppressed(finding))
        tried_ = std::move(finding);
      return;
    }
    if (collector_.add(finding)) fresh_.push_back(std::move(finding));
  }
  /// Without it: who prints, or is told, may wait.
  void tell(const std::vector<Finding>& fresh) const noexcept {
    for (const Finding& finding : fresh) {
      tell_sink(finding);
      try {
        if (options_.mode != CheckMode::collect) print(to_text(finding));
      } catch (...) {  // as the observer that it is, it does not throw
      }
    }
  }
  /// Whatever it throws: what a call throws, and what is printed, does not depend on it.
  void tell_sink(const Finding& finding) const noexcept {
    if (!options_.sink) return;
    try {
      options_.sink(finding);
    } catch (...) {
    }
  }
  static void print(const std::string& text) { std::fwrite(text.data(), 1, text.size(), stderr); }

  static constexpr std::uint64_t commands_between_looks = 1024;

  mutable std::mutex mutex_;
  CheckOptions options_;
  check::Collector collector_;
  std::vector<Finding> fresh_;
  std::optional<Finding> tried_;
  std::string stopped_;
  std::uint64_t missed_ = 0;
  std::uint64_t next_look_ = 0;
  bool trying_ = false;
  bool ended_ = false;
  const pid_t process_ = getpid();
};

Checker::Checker(const CheckOptions& options, SourceLocation where) : state_(std::make_unique<State>(options, where)) {
  state_->begin(where);
}
Checker::~Checker() {
  try {
    state_->end();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "weir: check: %s\n", error.what());
  }
  if (!state_->ended()) static_cast<void>(state_.release());  // it is attached still
}
std::vector<Finding> Checker::findings() const { return state_->report().findings; }
std::size_t Checker::errors() const { return state_->errors(); }
CheckStatistics Checker::statistics() const { return state_->statistics(); }
CheckReport Checker::report() const { return state_->report(); }
void Checker::write_json(std::ostream& out) const { out << to_json(report()) << "\n"; }
void Checker::clear() { state_->clear(); }
void Checker::finish() { state_->end(); }
bool Checker::armed() { return watching > 0; }

}  // namespace weir
