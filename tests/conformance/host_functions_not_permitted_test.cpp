// Weir calls inside a host function, or inside a kernel on the CPU, are errors that name the call, never deadlocks.
// CUDA answers cudaErrorNotPermitted to most of them (R88, R89), and a synchronisation may deadlock.
#include <exception>
#include <functional>
#include <string>
#include <vector>

#include "support/any_device.hpp"
#include "support/errors.hpp"
#include "support/gate.hpp"

namespace weir_test {
namespace {

/// What the calls act on.
struct Objects {
  explicit Objects(weir::Device d)
      : device(d),
        stream(d),
        other(d),
        event(d),
        start(d),
        end(d),
        x(weir::zeros<int>(stream, 100)),
        y(weir::zeros<int>(stream, 100)),
        p(weir::zeros<int>(weir::pinned, 100)),
        pool(d) {
    stream.record(start);
    stream.record(end);
    stream.synchronize();
  }

  weir::Device device;
  weir::Stream stream, other;
  weir::Event event;
  weir::TimedEvent start, end;
  weir::Array<int> x, y, p;
  weir::Pool pool;
  std::vector<int> values = std::vector<int>(100);
};

struct Call {
  const char* name;  ///< what the message must contain
  std::function<void(Objects&)> make;
};

std::vector<Call> forbidden_calls() {
  return {
      {"synchronize", [](Objects&) { weir::synchronize(); }},
      {"synchronize", [](Objects& o) { o.device.synchronize(); }},
      {"synchronize", [](Objects& o) { weir::synchronize_device(o.device); }},
      {"synchronize", [](Objects& o) { o.stream.synchronize(); }},
      {"synchronize", [](Objects& o) { o.other.synchronize(); }},
      {"synchronize", [](Objects& o) { weir::synchronize_stream(o.other); }},
      {"synchronize", [](Objects& o) { o.event.synchronize(); }},
      {"done", [](Objects& o) { (void)o.stream.done(); }},
      {"done", [](Objects& o) { (void)o.other.done(); }},
      {"record", [](Objects& o) { o.other.record(o.event); }},
      {"record", [](Objects& o) { (void)o.other.record(); }},
      {"record", [](Objects& o) { (void)o.other.record_timed(); }},
      {"wait", [](Objects& o) { o.other.wait(o.event); }},
      {"wait", [](Objects& o) { o.other.wait(o.stream); }},
      {"launch", [](Objects& o) { weir::launch(o.other, 1, WriteMark{}, o.p.data(), 1); }},
      {"launch", [](Objects& o) { weir::launch(o.stream, 1, WriteMark{}, o.p.data(), 1); }},
      {"copy", [](Objects& o) { weir::copy(o.other, o.y, o.x); }},
      {"copy", [](Objects& o) { weir::copy(o.other, o.values, o.x); }},
      {"copy", [](Objects& o) { weir::copy(o.other, o.p, o.x); }},
      {"to_host", [](Objects& o) { (void)o.x.to_host(); }},
      {"clone", [](Objects& o) { (void)o.x.clone(o.other); }},
      {"fill", [](Objects& o) { weir::fill(o.other, o.x, 1); }},
      {"weir::empty", [](Objects& o) { (void)weir::empty<int>(o.other, 10); }},
      {"weir::zeros", [](Objects& o) { (void)weir::zeros<int>(o.other, 10); }},
      {"weir::empty", [](Objects&) { (void)weir::empty<int>(weir::pinned, 10); }},
      {"free", [](Objects& o) { o.x.free(); }},
      {"allocate", [](Objects& o) { (void)o.pool.allocate(o.other, 100); }},
      {"trim", [](Objects& o) { o.pool.trim(); }},
      {"host_call", [](Objects& o) { weir::host_call(o.other, [] {}); }},
      {"external", [](Objects& o) { weir::external(o.other, [](weir::NativeStream) {}); }},
      {"Stream", [](Objects& o) { const weir::Stream s(o.device); }},
      {"Event", [](Objects& o) { const weir::Event e(o.device); }},
      {"TimedEvent", [](Objects& o) { const weir::TimedEvent e(o.device); }},
      {"Pool", [](Objects& o) { const weir::Pool p(o.device); }},
      {"pin", [](Objects& o) { weir::pin(o.values.data(), 100 * sizeof(int)); }},
      {"elapsed", [](Objects& o) { (void)weir::elapsed(o.start, o.end); }},
      {"reduce", [](Objects& o) { weir::reduce(o.other, o.x, o.y); }},
      {"set_stream", [](Objects& o) { weir::set_stream(o.other); }},
      {"default_device", [](Objects&) { (void)weir::default_device(); }},
      {"set_default_device", [](Objects& o) { weir::set_default_device(o.device); }},
      {"ScopedDevice", [](Objects& o) { const weir::ScopedDevice scope(o.device); }},
      {"devices", [](Objects&) { (void)weir::devices(); }},
      {"devices", [](Objects&) { (void)weir::devices("cpu"); }},
      {"why_absent", [](Objects&) { (void)weir::why_absent("cuda"); }},
      {"legacy_stream", [](Objects& o) { (void)weir::legacy_stream(o.device); }},
      {"per_thread_stream", [](Objects& o) { (void)weir::per_thread_stream(o.device); }},
      {"get_stream", [](Objects& o) { (void)weir::get_stream(o.device); }},
      {"default_device", [](Objects&) { (void)weir::get_stream(); }},
      {"default_pool", [](Objects& o) { (void)weir::default_pool(o.device); }},
      {"get_pool", [](Objects& o) { (void)weir::get_pool(o.device); }},
      {"pointer_info", [](Objects& o) { (void)weir::pointer_info(o.p.data()); }},
      {"can_access_peer", [](Objects& o) { (void)weir::can_access_peer(o.device, o.device); }},
      {"peer_access_enabled", [](Objects& o) { (void)weir::peer_access_enabled(o.device, o.device); }},
      {"read_graph_nodes", [](Objects&) { (void)weir::read_graph_nodes("no.graph"); }},
      {"slice", [](Objects& o) { (void)o.p.slice(0, 10); }},
      {"transposed", [](Objects& o) { (void)o.p.transposed(); }},
      {"reshape",
       [](Objects& o) {
         (void)o.p.reshape({10, 10});
       }},
      {"ScopedStream", [](Objects& o) { const weir::ScopedStream scope(o.other); }},
  };
}

/// Makes every call and keeps what came of it. Called in a host function or a kernel.
class Trial {
 public:
  explicit Trial(Objects& objects) : objects_(objects) {}
  void run() {
    for (const Call& call : calls_) {
      std::string outcome = "nothing was thrown";
      try {
        call.make(objects_);
      } catch (const weir::Error& error) {
        outcome = error.errc() == weir::Errc::not_permitted ? "refused: " : "another error: ";
        outcome += error.what();
      } catch (const std::exception& error) {
        outcome = std::string("another exception: ") + error.what();
      }
      outcomes_.push_back(outcome);
    }
  }
  void expect_all_refused() const {
    ASSERT_EQ(outcomes_.size(), calls_.size());
    for (std::size_t i = 0; i < calls_.size(); ++i) {
      EXPECT_TRUE(outcomes_[i].starts_with("refused") && outcomes_[i].find(calls_[i].name) != std::string::npos)
          << "call " << i << ", which is about '" << calls_[i].name << "': " << outcomes_[i];
    }
  }

 private:
  Objects& objects_;
  std::vector<Call> calls_ = forbidden_calls();
  std::vector<std::string> outcomes_;
};

class NotPermitted : public AnyDevice {};
ON_EVERY_DEVICE(NotPermitted);

TEST_P(NotPermitted, C13_R88_R89_calls_inside_a_host_function_are_refused_by_name) {
  Objects objects(device());
  Trial trial(objects);
  weir::host_call(objects.stream, [&trial] { trial.run(); });
  objects.stream.synchronize();
  trial.expect_all_refused();
}

struct RunTrial {
  Trial* trial;
  void operator()(std::size_t) const { trial->run(); }
};

TEST_P(NotPermitted, C13_calls_inside_a_kernel_are_refused_by_name) {
  if (!on("cpu")) GTEST_SKIP() << "kernels of this backend cannot call the library at all";
  Objects objects(device());
  Trial trial(objects);
  weir::launch(objects.stream, 1, weir::host_only(RunTrial{&trial}));
  objects.stream.synchronize();
  trial.expect_all_refused();
}

//  s: [hold ......][host function with forbidden calls]      run by the thread that waits, too
TEST_P(NotPermitted, C13_the_thread_that_waits_is_free_to_call_again) {
  Objects objects(device());
  Marker marker;
  for (int round = 0; round < 20; ++round) {
    Trial trial(objects);
    weir::host_call(objects.stream, [&trial] { trial.run(); });
    objects.stream.synchronize();
    mark(objects.stream, marker, round + 1);
    objects.stream.synchronize();
    ASSERT_EQ(marker.value(), round + 1);
    trial.expect_all_refused();
  }
}

TEST_P(NotPermitted, C13_an_error_of_a_forbidden_call_that_nobody_catches_comes_out) {
  weir::Stream s(device()), other(device());
  weir::host_call(s, [&other] { other.synchronize(); });
  const auto error = error_of([&] { s.synchronize(); });
  ASSERT_TRUE(error.has_value());
  EXPECT_EQ(error->errc(), weir::Errc::host_function_failed);
  EXPECT_TRUE(fails_with(weir::Errc::not_permitted, [&] { std::rethrow_exception(error->cause()); }, {"synchronize"}));
}

TEST_P(NotPermitted, arguments_of_a_call_can_be_looked_at) {
  Objects objects(device());
  std::size_t size = 0;
  weir::host_call(objects.stream, [&] { size = objects.p.size() + objects.p.bytes() + objects.p.shape().rank(); });
  objects.stream.synchronize();
  EXPECT_EQ(size, 100 + 400 + 1u);
}

}  // namespace
}  // namespace weir_test
