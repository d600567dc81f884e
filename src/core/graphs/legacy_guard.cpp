// The legacy stream during captures.
#include "core/graphs/legacy_guard.hpp"

#include <cstdint>

#include "core/graphs/capture.hpp"

namespace weir::detail {

namespace {

enum class Attempt : std::uint8_t { none, made, refused };
thread_local Attempt attempt = Attempt::none;

class LegacyGuard final : public Queue {
 public:
  explicit LegacyGuard(DeviceState& device) : stream_(*device.legacy.state()) {}

  void submit(const Command& command) override {
    if (attempt != Attempt::none) {
      attempt = Attempt::refused;
      throw Error(Errc::capture_implicit, operation_of(command.op), describe(stream_),
                  "a blocking stream of its device captures: the call goes another way", command.where);
    }
    refuse(operation_of(command.op), command.where);
  }
  std::unique_ptr<Signal> wait_for_signal(const Command& command) override {
    refuse("weir::Stream::wait", command.where);
    return nullptr;
  }
  void follow(Queue& other, StreamId owner) override { stream_.real->follow(other, owner); }
  bool done() override { return stream_.real->done(); }
  bool is_over(StreamId owner) override { return stream_.real->is_over(owner); }
  void synchronize(const char* operation, SourceLocation where) override { refuse(operation, where); }
  void drain() noexcept override { stream_.real->drain(); }
  void retire() noexcept override {}

 private:
  static const char* operation_of(const Op& op) {
    return visit_op(
        op, [](const Launch&) { return "weir::launch"; }, [](const Copy&) { return "weir::copy"; },
        [](const Fill&) { return "weir::fill"; }, [](const Alloc&) { return "weir::Pool::allocate"; },
        [](const Free&) { return "weir::Pool::free"; }, [](const Record&) { return "weir::Stream::record"; },
        [](const Wait&) { return "weir::Stream::wait"; }, [](const HostCall&) { return "weir::host_call"; },
        [](const External&) { return "weir::external"; }, [](const GraphLaunch&) { return "weir::Graph::launch"; },
        [](const Collective& collective) { return collective.call; });
  }
  void refuse(const char* operation, SourceLocation where) {
    check_waits_slowly(&stream_, nullptr, false, operation, describe(stream_), where);
    throw Error(Errc::capture_implicit, operation, describe(stream_), "a capture has just ended: call again", where);
  }

  StreamState& stream_;
};

}  // namespace

LegacyAttempt::LegacyAttempt() noexcept { attempt = Attempt::made; }
LegacyAttempt::~LegacyAttempt() { attempt = Attempt::none; }
bool LegacyAttempt::refused() const noexcept { return attempt == Attempt::refused; }

void make_legacy_guard(DeviceState& device) {
  if (device.legacy_guard == nullptr) device.legacy_guard = new LegacyGuard(device);
}

void guard_legacy(DeviceState& device, int change) {
  device.blocking_captures += change;
  StreamState& legacy = *device.legacy.state();
  legacy.queue = device.blocking_captures > 0 ? device.legacy_guard : legacy.real;
}

}  // namespace weir::detail
