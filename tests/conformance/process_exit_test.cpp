// How a process may end: with work pending, from any thread, with Weir's objects in static and thread-local variables.
#include <chrono>
#include <cstdlib>
#include <memory>
#include <optional>
#include <stdexcept>
#include <thread>
#include <vector>

#include "support/child.hpp"
#include "support/gate.hpp"

namespace weir_test {
namespace {

struct Nap {
  WEIR_KERNEL void operator()(std::size_t, int milliseconds) const {
#if !defined(__CUDA_ARCH__)
    std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds));
#endif
  }
};

/// Enough work to be still busy when main() returns, of every kind.
void keep_busy(weir::StreamRef s) {
  auto x = weir::zeros<int>(s, 100'000);
  auto p = weir::zeros<int>(weir::pinned, 100'000);
  for (int i = 0; i < 50; ++i) {
    weir::launch(s, 1, Nap{}, 2);
    weir::fill(s, x, i);
    weir::copy(s, p, x);
    weir::host_call(s, [owned = std::make_unique<int>(i)] { *owned += 1; });
  }
}

WEIR_SCENE(main_returns_with_work_pending) {
  for (const weir::Device& device : weir::devices()) {
    keep_busy(weir::get_stream(device));
    keep_busy(weir::legacy_stream(device));
    keep_busy(weir::per_thread_stream(device));
    const weir::Stream gone(device);
    keep_busy(gone);
  }
}

WEIR_SCENE(exit_is_called_with_work_pending) {
  const weir::Stream s, waiting;
  keep_busy(s);
  waiting.wait(s);
  keep_busy(waiting);
  std::exit(0);
}

WEIR_SCENE(quick_exit_is_called_with_work_pending) {
  keep_busy(weir::get_stream());
  std::quick_exit(0);
}

WEIR_SCENE(another_thread_calls_exit) {
  std::thread([] {
    keep_busy(weir::per_thread_stream(weir::default_device()));
    std::exit(0);
  }).join();
}

WEIR_SCENE(a_failure_is_never_reported) {
  const weir::Stream s(weir::device("cpu"));
  struct Burst {
    void operator()(std::size_t) const { throw std::runtime_error("the pipe burst"); }
  };
  weir::launch(s, 1, weir::host_only(Burst{}));
  keep_busy(s);
}

/// Everything that a user may keep in a static variable.
struct Belongings {
  weir::Stream stream;
  weir::Stream non_blocking{weir::default_device(), {.blocking = false}};
  weir::Event event;
  weir::TimedEvent timed;
  weir::Pool pool{weir::default_device()};
  weir::Array<int> on_device = weir::zeros<int>(stream, 1000);
  weir::Array<int> in_pool = weir::empty<int>(stream, 1000, pool);
  weir::Array<int> pinned = weir::zeros<int>(weir::pinned, 1000);
  weir::Array<int> pageable = weir::zeros<int>(weir::host, 1000);
  weir::Slice<int> part = on_device.slice(10, 20);
  std::vector<int> values = std::vector<int>(1000);
  weir::ScopedPin pin{values};
};

/// Made at static initialisation, before the library does anything: destroyed after the library's own statics.
std::optional<Belongings> destroyed_late;

WEIR_SCENE(static_objects_are_destroyed_late) {
  destroyed_late.emplace();
  keep_busy(destroyed_late->stream);
  keep_busy(destroyed_late->non_blocking);
  destroyed_late->stream.record(destroyed_late->event);
}

WEIR_SCENE(static_objects_are_destroyed_early) {
  static Belongings made_after_the_library;
  keep_busy(made_after_the_library.stream);
  made_after_the_library.stream.record(made_after_the_library.timed);
}

/// At its late end a static object may even call: an answer or an Error, no crash and no hang.
struct CallsLate {
  std::optional<weir::Stream> stream;
  ~CallsLate() {
    if (!stream) return;
    try {
      Marker marker;
      mark(*stream, marker);
      stream->synchronize();
    } catch (const weir::Error&) {
    }
  }
};
CallsLate calls_late;

WEIR_SCENE(a_static_object_calls_at_its_end) {
  calls_late.stream.emplace();
  keep_busy(*calls_late.stream);
}

WEIR_SCENE(thread_local_objects_are_destroyed_with_their_thread) {
  const auto own_something = [] {
    thread_local Belongings own;
    keep_busy(own.stream);
  };
  std::thread(own_something).join();
  own_something();  // on the main thread: destroyed when main() returns
}

/// A thread that nobody joins goes on calling while the process ends.
WEIR_SCENE(a_detached_thread_goes_on_launching) {
  auto begun = std::make_shared<Marker>();
  std::thread([begun] {
    try {
      const weir::Stream s;
      for (;;) {
        weir::launch(s, 1, Nap{}, 0);
        begun->set(1);
        if (!s.done()) std::this_thread::yield();
      }
    } catch (const weir::Error&) {
      for (;;) std::this_thread::sleep_for(std::chrono::seconds(1));
    }
  }).detach();
  insist(eventually([&] { return begun->value() == 1; }), "the thread launches");
}

WEIR_SCENE(the_library_is_never_used) {}

TEST(ProcessExit, main_returns_with_work_pending) { EXPECT_TRUE(ended_well(play("main_returns_with_work_pending"))); }
TEST(ProcessExit, main_returns_with_work_pending_on_two_devices) {
  EXPECT_TRUE(ended_well(play("main_returns_with_work_pending", {"WEIR_CPU_DEVICES=2"})));
}
TEST(ProcessExit, exit_is_called_with_work_pending) {
  EXPECT_TRUE(ended_well(play("exit_is_called_with_work_pending")));
}
TEST(ProcessExit, quick_exit_is_called_with_work_pending) {
  EXPECT_TRUE(ended_well(play("quick_exit_is_called_with_work_pending")));
}
TEST(ProcessExit, another_thread_calls_exit) { EXPECT_TRUE(ended_well(play("another_thread_calls_exit"))); }
TEST(ProcessExit, a_failure_is_never_reported) { EXPECT_TRUE(ended_well(play("a_failure_is_never_reported"))); }
TEST(ProcessExit, static_objects_are_destroyed_late) {
  EXPECT_TRUE(ended_well(play("static_objects_are_destroyed_late")));
}
TEST(ProcessExit, static_objects_are_destroyed_early) {
  EXPECT_TRUE(ended_well(play("static_objects_are_destroyed_early")));
}
TEST(ProcessExit, a_static_object_calls_at_its_end) {
  EXPECT_TRUE(ended_well(play("a_static_object_calls_at_its_end")));
}
TEST(ProcessExit, thread_local_objects_are_destroyed_with_their_thread) {
  EXPECT_TRUE(ended_well(play("thread_local_objects_are_destroyed_with_their_thread")));
}
TEST(ProcessExit, a_detached_thread_goes_on_launching) {
  EXPECT_TRUE(ended_well(play("a_detached_thread_goes_on_launching")));
}
TEST(ProcessExit, the_library_is_never_used) { EXPECT_TRUE(ended_well(play("the_library_is_never_used"))); }

}  // namespace
}  // namespace weir_test
