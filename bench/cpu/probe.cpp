// A process whose launches are watched from outside, or that counts its own allocations: cpu_probe WHAT N, where WHAT is submit,
// submit32, submit64, wait, allocations, replays or flat.
#include <array>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <stdexcept>

#include <weir/weir.hpp>

#include "support/measure.hpp"
#include "support/proof.hpp"

// Every allocation of this program goes through these: operator new calls malloc.
extern "C" {
void* __libc_malloc(std::size_t bytes);
void* __libc_calloc(std::size_t count, std::size_t bytes);
void* __libc_realloc(void* data, std::size_t bytes);
void* __libc_memalign(std::size_t alignment, std::size_t bytes);
}

namespace {
std::atomic<std::size_t> allocated{0};
void count_one() { allocated.fetch_add(1, std::memory_order_relaxed); }
template <class T>
void use(const T& values) {
  asm volatile("" : : "m"(values));
}
}  // namespace

extern "C" {
void* malloc(std::size_t bytes) {
  count_one();
  return __libc_malloc(bytes);
}
void* calloc(std::size_t count, std::size_t bytes) {
  count_one();
  return __libc_calloc(count, bytes);
}
void* realloc(void* data, std::size_t bytes) {
  count_one();
  return __libc_realloc(data, bytes);
}
void* aligned_alloc(std::size_t alignment, std::size_t bytes) {
  count_one();
  return __libc_memalign(alignment, bytes);
}
int posix_memalign(void** data, std::size_t alignment, std::size_t bytes) {
  count_one();
  *data = __libc_memalign(alignment, bytes);
  return *data == nullptr ? 12 : 0;
}

/// A name that callgrind looks for: nothing but submissions happens inside.
__attribute__((noinline)) void submit_launches(const weir::Stream& stream, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) weir::launch(stream, 1, [](std::size_t) { bench::tally(); });
}
/// The same with closures of 32 and of 64 bytes.
__attribute__((noinline)) void submit32_launches(const weir::Stream& stream, std::size_t count) {
  const std::array<std::size_t, 3> values{count};
  for (std::size_t i = 0; i < count; ++i)
    weir::launch(stream, 1, [values](std::size_t) {
      use(values);
      bench::tally();
    });
}
__attribute__((noinline)) void submit64_launches(const weir::Stream& stream, std::size_t count) {
  const std::array<std::size_t, 7> values{count};
  for (std::size_t i = 0; i < count; ++i)
    weir::launch(stream, 1, [values](std::size_t) {
      use(values);
      bench::tally();
    });
}
/// Launches that are waited for, one after the other.
__attribute__((noinline)) void wait_launches(const weir::Stream& stream, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    weir::launch(stream, 1, [](std::size_t) { bench::tally(); });
    stream.synchronize();
  }
}
}

namespace {

constexpr const char* usage = "usage: cpu_probe submit|submit32|submit64|wait|allocations|replays|flat N";

void submit_unwatched(const weir::Stream& stream, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) weir::launch(stream, 1, [](std::size_t) { bench::tally(); });
}

/// Throws unless `work` runs so many tasks.
template <class Work>
void check(std::size_t tasks, Work&& work) {
  const std::uint64_t before = bench::tallied();
  work();
  if (bench::tallied() - before != tasks) throw std::runtime_error("not every task ran");
}

/// Launches behind a kernel that waits, so that nothing runs while they are submitted.
void submit_held(const weir::Stream& stream, std::size_t count, decltype(submit_unwatched)* submit = submit_unwatched) {
  std::atomic<bool> open{false};
  weir::launch(stream, 1, [&open](std::size_t) { open.wait(false); });
  check(count, [&] {
    submit(stream, count);
    open.store(true);
    open.notify_all();
    stream.synchronize();
  });
}

double submit(const weir::Stream& stream, std::size_t count, decltype(submit_launches)* launches) {
  submit_held(stream, 3 * count);  // from here on it is warm
  submit_held(stream, count, launches);
  return static_cast<double>(count);
}

double wait(const weir::Stream& stream, std::size_t count) {
  submit_held(stream, count);
  check(count, [&] { wait_launches(stream, count); });
  return static_cast<double>(count);
}

/// Allocations per launch once the stream has held as many launches before.
double allocations(const weir::Stream& stream, std::size_t count) {
  constexpr std::size_t burst = 1000;
  const std::size_t bursts = count / burst + 1;
  for (std::size_t i = 0; i < bursts; ++i) submit_held(stream, burst);
  const std::size_t before = allocated.load();
  for (std::size_t i = 0; i < bursts; ++i) submit_held(stream, burst);
  return static_cast<double>(allocated.load() - before) / static_cast<double>(bursts * burst);
}

/// A graph with something of everything: branches, memory, copies, host functions, a condition, a timed event.
weir::Graph mixed_graph(const weir::Stream& stream, const weir::TimedEvent& event) {
  const weir::Stream branch(stream.device());
  auto values = weir::full<float>(stream, 4096, 1.0f);
  auto condition = weir::full<std::int32_t>(stream, 1, 1);
  stream.synchronize();
  return weir::capture(stream, [&] {
    branch.wait(stream);
    auto scratch = weir::empty<float>(branch, 4096);
    weir::copy(branch, scratch, values);
    weir::reduce(branch, scratch, values.slice(0, 1));
    weir::launch(stream, 1, [](std::size_t) { bench::tally(); });
    weir::host_call(stream, [] {});
    weir::capture_if(stream, condition, [&] { weir::fill(stream, values.slice(1, 4096), 2.0f); });
    stream.wait(branch);
    stream.record(event);
  });
}

/// Allocations per replay once as many were pending before.
double replays(const weir::Stream& stream, std::size_t count) {
  constexpr std::size_t burst = 1000;
  const std::size_t bursts = count / burst + 1;
  const weir::TimedEvent event(stream.device());
  const weir::Graph graph = mixed_graph(stream, event);
  const auto replay_all = [&] {
    for (std::size_t i = 0; i < bursts; ++i) {
      for (std::size_t r = 0; r < burst; ++r) graph.launch(stream);
      stream.synchronize();
    }
  };
  replay_all();
  const std::size_t before = allocated.load();
  check(bursts * burst, replay_all);
  return static_cast<double>(allocated.load() - before) / static_cast<double>(bursts * burst);
}

/// How much more memory is resident after all launches than after the most that were ever pending at a time.
double flat(const weir::Stream& stream, std::size_t count) {
  constexpr std::size_t most = 100'000;
  submit_held(stream, most);
  const double warm = bench::resident_mib();
  for (std::size_t done = 0; done < count; done += most) {
    check(most, [&] {
      submit_unwatched(stream, most);
      stream.synchronize();
    });
  }
  return bench::resident_mib() - warm;
}

double run(const char* what, std::size_t count) {
  const weir::Stream stream(weir::device("cpu"));
  if (std::strcmp(what, "submit") == 0) return submit(stream, count, submit_launches);
  if (std::strcmp(what, "submit32") == 0) return submit(stream, count, submit32_launches);
  if (std::strcmp(what, "submit64") == 0) return submit(stream, count, submit64_launches);
  if (std::strcmp(what, "wait") == 0) return wait(stream, count);
  if (std::strcmp(what, "allocations") == 0) return allocations(stream, count);
  if (std::strcmp(what, "replays") == 0) return replays(stream, count);
  if (std::strcmp(what, "flat") == 0) return flat(stream, count);
  throw std::invalid_argument(usage);
}

}  // namespace

int main(int argc, char** argv) {
  try {
    if (argc != 3) throw std::invalid_argument(usage);
    std::printf("%.9g\n", run(argv[1], std::strtoull(argv[2], nullptr, 10)));
    return 0;
  } catch (const std::exception& failure) {
    std::fprintf(stderr, "cpu_probe: %s\n", failure.what());
    return 1;
  }
}
