// Two processes of one host work on one array in turn, ordered by events, and nothing is copied between them. The program starts
// itself a second time: `example_19_two_processes other` is the other process.
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <stdexcept>

#include <weir/ipc.hpp>
#include <weir/weir.hpp>

extern char** environ;

namespace {

constexpr std::size_t n = 1 << 20;
constexpr int other_end = 3;  // the other process's end of the socket

struct Count {
  WEIR_KERNEL void operator()(std::size_t i, weir::View<double> x) const { x[i] = static_cast<double>(i); }
};
struct Twice {
  WEIR_KERNEL void operator()(std::size_t i, weir::View<double> x) const { x[i] *= 2; }
};

// Handles are plain bytes: any way to the other process will do.
template <class T>
void send(int socket, const T& value) {
  if (write(socket, &value, sizeof value) != sizeof value) throw std::runtime_error("the other process is gone");
}
template <class T>
T receive(int socket) {
  T value{};
  if (read(socket, &value, sizeof value) != sizeof value) throw std::runtime_error("the other process is gone");
  return value;
}

int other_process() {
  const weir::Stream stream(weir::default_device(), {.name = "other"});
  auto x = weir::import_array<double>(stream, receive<weir::ArrayHandle>(other_end));
  const weir::Event counted = weir::import_event(stream.device(), receive<weir::EventHandle>(other_end));

  stream.wait(counted);  // the streams wait for each other, no host thread does
  weir::launch(stream, n, Twice{}, weir::inout(x));
  const weir::Event doubled = stream.record();
  send(other_end, weir::export_event(doubled));

  receive<char>(other_end);  // an exporter stays as long as others wait for its events
  return 0;
}

pid_t start_other(const char* program, int socket) {
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, socket, other_end);
  char name[] = "other";
  char* arguments[] = {const_cast<char*>(program), name, nullptr};
  pid_t other = 0;
  if (posix_spawn(&other, "/proc/self/exe", &actions, nullptr, arguments, environ) != 0)
    throw std::runtime_error("no process");
  posix_spawn_file_actions_destroy(&actions);
  return other;
}

}  // namespace

int main(int count, char** arguments) {
  if (count > 1 && std::strcmp(arguments[1], "other") == 0) return other_process();

  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends) != 0) return 1;
  if (ends[0] == other_end) std::swap(ends[0], ends[1]);
  const pid_t other = start_other(arguments[0], ends[1]);
  close(ends[1]);

  const weir::Stream stream(weir::default_device(), {.name = "first"});
  const weir::Pool pool(stream.device(), {.name = "shared", .shareable = true});
  auto x = weir::empty<double>(stream, n, pool);
  weir::launch(stream, n, Count{}, weir::inout(x));
  const weir::Event counted = stream.record();
  send(ends[0], weir::export_array(x));
  send(ends[0], weir::export_event(counted));

  const weir::Event doubled = weir::import_event(stream.device(), receive<weir::EventHandle>(ends[0]));
  stream.wait(doubled);
  auto result = weir::empty<double>(weir::pinned, n);
  weir::copy(stream, result, x);
  stream.synchronize();
  send(ends[0], '.');

  const auto values = weir::host_read(result);
  int status = 0;
  waitpid(other, &status, 0);
  std::printf("x[%zu] = %g, doubled by process %d\n", n - 1, values[n - 1], static_cast<int>(other));
  return status == 0 && values[n - 1] == 2.0 * static_cast<double>(n - 1) ? 0 : 1;
}
