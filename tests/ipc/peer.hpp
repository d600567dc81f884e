// Another process of this test program, which plays a scene and talks to the test.
#pragma once

#include <sys/types.h>

#include <string>
#include <string_view>
#include <type_traits>

#include <weir/ipc.hpp>
#include <weir/weir.hpp>

#include "support/child.hpp"

namespace weir_test {

/// One end of what test and scene say to each other: plain objects, in order. Waiting for one has a limit.
class Talk {
 public:
  explicit Talk(int socket) : socket_(socket) {}
  template <class T>
  void say(const T& object) const {
    static_assert(std::is_trivially_copyable_v<T>);
    send(&object, sizeof object);
  }
  template <class T>
  T hear() const {
    T object{};
    receive(&object, sizeof object);
    return object;
  }
  /// That something is done or may be done: one byte.
  void nod() const { say('.'); }
  void await_nod() const { static_cast<void>(hear<char>()); }

 private:
  void send(const void* data, std::size_t bytes) const;
  void receive(void* data, std::size_t bytes) const;
  int socket_;
};

/// The scene's end, and the device that the test is about.
Talk test_process();
weir::Device test_device();

/// A process that plays a scene; ended with the test.
class Peer {
 public:
  Peer(std::string_view scene, weir::Device device);
  ~Peer();
  Peer(const Peer&) = delete;
  Peer& operator=(const Peer&) = delete;

  const Talk* operator->() const { return &talk_; }
  pid_t pid() const { return pid_; }
  /// SIGKILL, and it is gone when this returns.
  void kill();
  /// SIGSTOP, and all its threads stand still when this returns.
  void stop() const;
  void resume() const;
  /// It ends by itself, well.
  testing::AssertionResult ends_well();

 private:
  int socket_ = -1;
  Talk talk_{-1};
  pid_t pid_ = -1;
};

}  // namespace weir_test
