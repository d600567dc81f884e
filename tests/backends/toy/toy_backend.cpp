// A backend that runs inline. What it does not override is the seam's default.
#include "backends/toy/toy_backend.hpp"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <map>

#include <weir/block.hpp>
#include <weir/host_call.hpp>
#include <weir/kernel.hpp>

#include "failure_reports.hpp"
#include "thread_safety.hpp"

namespace weir::toy {

namespace {

using detail::LockGuard;
using Clock = std::chrono::steady_clock;

/// What stopped a stream, until somebody is told. The events that were recorded behind it have it, too.
struct Failure {
  explicit Failure(std::shared_ptr<const Error> its_error) : error(std::move(its_error)) {}
  const std::shared_ptr<const Error> error;
  std::atomic<bool> told{false};
};
using SharedFailure = std::shared_ptr<Failure>;

bool pending(const SharedFailure& failure) { return failure != nullptr && !failure->told.load(); }

[[noreturn]] void tell(Failure& failure) {
  failure.told.store(true);
  detail::throw_seen(*failure.error);
}

/// The failures of all streams, the oldest first.
class Failures {
 public:
  void add(const SharedFailure& failure) {
    const LockGuard guard(mutex_);
    std::erase_if(all_, [](const SharedFailure& one) { return !pending(one); });
    all_.push_back(failure);
  }
  SharedFailure oldest() {
    const LockGuard guard(mutex_);
    const auto found = std::find_if(all_.begin(), all_.end(), pending);
    return found != all_.end() ? *found : nullptr;
  }

 private:
  detail::Mutex mutex_;
  std::vector<SharedFailure> all_ WEIR_GUARDED_BY(mutex_);
};
Failures& failures = *new Failures;  // outlives every static object of the program

/// Queues or events: never deleted, since handles of former owners may be about, but used again.
template <class T>
class Recycled {
 public:
  T& take() {
    const LockGuard guard(mutex_);
    if (free_.empty()) return *new T;
    T& again = *free_.back();
    free_.pop_back();
    return again;
  }
  void give(T& one) noexcept {
    const LockGuard guard(mutex_);
    try {
      free_.push_back(&one);
    } catch (...) {  // it is not used again
    }
  }
  static Recycled& all() {
    static auto& recycled = *new Recycled;
    return recycled;
  }

 private:
  detail::Mutex mutex_;
  std::vector<T*> free_ WEIR_GUARDED_BY(mutex_);
};

// ---- Events -----------------------------------------------------------------------------------------------------------

class ToyEvent final : public detail::EventState {
 public:
  void record(SharedFailure failure) {
    const LockGuard guard(mutex_);
    failure_ = std::move(failure);
  }
  /// What the last record found.
  SharedFailure found() {
    const LockGuard guard(mutex_);
    return pending(failure_) ? failure_ : nullptr;
  }

  void close() noexcept override {
    record(nullptr);
    Recycled<ToyEvent>::all().give(*this);
  }
  std::shared_ptr<const Error> failure() override {
    const SharedFailure last = found();
    return last != nullptr ? last->error : nullptr;
  }

 private:
  detail::Mutex mutex_;
  SharedFailure failure_ WEIR_GUARDED_BY(mutex_);
};

// ---- Queues -----------------------------------------------------------------------------------------------------------

/// Calls `f` with the place of every element, as an offset in each of two layouts of one shape.
template <class F>
void for_each_element(const Layout& a, const Layout& b, const F& f) {
  for (std::size_t i = 0; i < a.shape.count(); ++i) {
    std::ptrdiff_t in_a = 0, in_b = 0;
    std::size_t rest = i;
    for (std::size_t d = a.shape.rank(); d-- > 0;) {
      const auto place = static_cast<std::ptrdiff_t>(rest % a.shape[d]);
      in_a += place * a.stride[d];
      in_b += place * b.stride[d];
      rest /= a.shape[d];
    }
    f(in_a, in_b);
  }
}

/// While a kernel or host function runs, its thread may not call Weir.
class Running {
 public:
  explicit Running(const detail::RunningCommand& command) : before_(detail::thread_state) {
    detail::running_command = command;
    detail::thread_state = detail::ThreadState::running;
  }
  ~Running() { detail::thread_state = before_; }
  Running(const Running&) = delete;

 private:
  const detail::ThreadState before_;
};

class ToyQueue final : public Queue {
 public:
  void open(const QueueOptions& options) {
    const LockGuard guard(mutex_);
    label_ = options.label;
    stream_ = options.stream;
    failure_ = nullptr;  // a former owner's is the device's to tell
  }
  void submit(const Command& command) override {
    const LockGuard guard(mutex_);
    const auto begin = Clock::now();
    visit_op(
        command.op, [&](const Launch& launch) WEIR_NEEDS(mutex_) { run(launch, command.where); },
        [&](const Copy& copy) WEIR_NEEDS(mutex_) { run(copy); },
        [&](const Fill& fill) WEIR_NEEDS(mutex_) { run(fill); },
        [&](const HostCall& host) WEIR_NEEDS(mutex_) { call(host.function, false, command.where); },
        [&](const External& work) WEIR_NEEDS(mutex_) { call(work.function, true, command.where); },
        [&](const Record& mark)
            WEIR_NEEDS(mutex_) { static_cast<ToyEvent*>(mark.event)->record(pending(failure_) ? failure_ : nullptr); },
        [&](const Wait& wait) WEIR_NEEDS(mutex_) {
          const SharedFailure theirs = static_cast<ToyEvent*>(wait.event)->found();
          if (theirs != nullptr && !pending(failure_)) fail(theirs->error);
        },
        [](const Alloc&) {}, [](const Free&) {},               // told to observers alone
        [](const GraphLaunch&) {}, [](const Collective&) {});  // there are none
    if (command.id != 0) detail::report_ran(command.id, stream_, {begin, Clock::now()});
  }
  void synchronize(const char*, SourceLocation) override {
    const LockGuard guard(mutex_);
    if (pending(failure_)) tell(*failure_);
  }
  void retire() noexcept override { Recycled<ToyQueue>::all().give(*this); }

 private:
  void fail(std::shared_ptr<const Error> error) WEIR_NEEDS(mutex_) {
    detail::report_failed(stream_, 0, *error);
    failure_ = std::make_shared<Failure>(std::move(error));
    failures.add(failure_);
  }

  /// Runs the user's code, unless the stream has failed.
  template <class F>
  void attempt(const detail::FailedCommand& command, const F& f) WEIR_NEEDS(mutex_) {
    if (pending(failure_)) return;
    try {
      const Running running({command.what, command.name, command.where});
      f();
    } catch (...) {
      auto error = detail::failure_of(command, std::current_exception());
      detail::note_unseen(error);
      fail(std::move(error));
    }
  }
  void run(const Launch& launch, SourceLocation where) WEIR_NEEDS(mutex_) {
    const Kernel& kernel = *launch.kernel;
    const std::string_view name = launch.name != nullptr ? launch.name : kernel.name;
    const char* operation = kernel.rank != 0 ? "weir::launch" : "weir::launch_blocks";
    attempt({Errc::kernel_failed, operation, "kernel", name, label_, where}, [&] {
      const std::size_t count = launch.extent.count();
      if (kernel.rank != 0) return kernel.run(launch.closure, KernelRange{&launch.extent, 0, count});
      detail::BlockMemory memory;
      const detail::BlockSizes sizes = detail::block_sizes(launch.extent, launch.thread_shape);
      kernel.run_blocks(launch.closure, BlockRange{sizes, 0, count, launch.shared_bytes, &memory});
    });
  }
  void call(detail::HostFunction* function, bool external, SourceLocation where) WEIR_NEEDS(mutex_) {
    const std::unique_ptr<detail::HostFunction> owned(function);
    const char* operation = external ? "weir::external" : "weir::host_call";
    const char* what = external ? "foreign work" : "host function";
    attempt({Errc::host_function_failed, operation, what, {}, label_, where}, [&] { owned->call(NativeStream{}); });
  }
  void run(const Copy& copy) WEIR_NEEDS(mutex_) {
    if (!pending(failure_)) {
      for_each_element(copy.to_layout, copy.from_layout, [&](std::ptrdiff_t to, std::ptrdiff_t from) {
        std::memmove(static_cast<std::byte*>(copy.to) + to, static_cast<const std::byte*>(copy.from) + from,
                     copy.to_layout.element_bytes);
      });
    } else if (copy.to_kind == MemoryKind::pageable) {
      tell(*failure_);  // the call is to return with the memory written (R36)
    }
  }
  void run(const Fill& fill) WEIR_NEEDS(mutex_) {
    if (!pending(failure_)) {
      for_each_element(fill.layout, fill.layout, [&](std::ptrdiff_t to, std::ptrdiff_t) {
        std::memcpy(static_cast<std::byte*>(fill.to) + to, fill.value, fill.layout.element_bytes);
      });
    } else if (fill.kind == MemoryKind::pageable) {
      tell(*failure_);
    }
  }

  detail::Mutex mutex_;  ///< held while a command runs: commands of one stream keep their order for all threads
  std::string label_ WEIR_GUARDED_BY(mutex_);
  StreamId stream_ WEIR_GUARDED_BY(mutex_) = 0;
  SharedFailure failure_ WEIR_GUARDED_BY(mutex_);
};

// ---- Memory -----------------------------------------------------------------------------------------------------------

constexpr std::size_t device_memory = std::size_t{1} << 30;

/// All live blocks, by their beginnings.
class Blocks {
 public:
  void add(void* data, std::size_t bytes, const detail::PoolState* pool) {
    const LockGuard guard(mutex_);
    live_[static_cast<std::byte*>(data)] = {bytes, pool};
  }
  /// How large the pool's block that begins there was; 0: there is none.
  std::size_t remove(void* data, const detail::PoolState* pool) {
    const LockGuard guard(mutex_);
    const auto found = live_.find(static_cast<std::byte*>(data));
    if (found == live_.end() || found->second.pool != pool) return 0;
    return live_.extract(found).mapped().bytes;
  }
  std::optional<PointerInfo> find(const void* data) {
    const LockGuard guard(mutex_);
    const auto* address = static_cast<const std::byte*>(data);
    const auto after = live_.upper_bound(address);
    if (after == live_.begin()) return std::nullopt;
    const auto& [begin, block] = *std::prev(after);
    if (address >= begin + block.bytes) return std::nullopt;
    return PointerInfo{MemoryKind::device, 0, static_cast<std::size_t>(begin + block.bytes - address)};
  }

 private:
  struct Block {
    std::size_t bytes;
    const detail::PoolState* pool;
  };
  detail::Mutex mutex_;
  std::map<const std::byte*, Block> live_ WEIR_GUARDED_BY(mutex_);
};
Blocks& blocks = *new Blocks;

/// Memory of the system's, which goes back to it at once: whatever had it is over when it is given back.
class ToyPool final : public detail::PoolState {
 public:
  ToyPool(Backend& owner, const PoolOptions& options)
      : PoolState(owner, 0, options.release_threshold),
        most_(options.max_size != 0 ? options.max_size : device_memory) {}

  void close() noexcept override {
    mutex_.lock();
    closed_ = true;
    end_if_unused();
  }
  void* allocate(Queue&, std::size_t bytes, const char* operation, SourceLocation where) override {
    if (bytes == 0) return nullptr;
    const LockGuard guard(mutex_);
    void* const data = bytes <= most_ - now_.used ? std::aligned_alloc(256, (bytes + 255) / 256 * 256) : nullptr;
    if (data == nullptr) {
      throw Error(Errc::out_of_memory, operation, "toy",
                  std::to_string(bytes) + " bytes do not fit into " + std::to_string(most_), where);
    }
    blocks.add(data, bytes, this);
    now_.used = now_.reserved = now_.used + bytes;
    now_.used_high = now_.reserved_high = std::max(now_.used_high, now_.used);
    return data;
  }
  void release(Queue&, bool, StreamId, detail::QueuePlaces& others, void* data, SourceLocation where) override {
    if (data == nullptr) return;
    const std::size_t bytes = blocks.remove(data, this);
    if (bytes == 0) {
      throw Error(Errc::invalid_value, "weir::Pool::free", "toy", "this is no live allocation of the pool", where);
    }
    const detail::QueuePlaces through = std::move(others);
    std::free(data);
    mutex_.lock();
    now_.used = now_.reserved = now_.used - bytes;
    end_if_unused();
  }
  PoolStatistics statistics() override {
    const LockGuard guard(mutex_);
    return now_;
  }
  void reset_high_marks() override {
    const LockGuard guard(mutex_);
    now_.used_high = now_.reserved_high = now_.used;
  }

 private:
  /// Gives the lock back.
  void end_if_unused() WEIR_GIVES(mutex_) {
    const bool unused = closed_ && now_.used == 0;
    mutex_.unlock();
    if (unused) delete this;
  }

  const std::size_t most_;
  detail::Mutex mutex_;
  PoolStatistics now_ WEIR_GUARDED_BY(mutex_);
  bool closed_ WEIR_GUARDED_BY(mutex_) = false;
};

// ---- The backend ------------------------------------------------------------------------------------------------------

class ToyBackend final : public Backend {
 public:
  std::string_view name() const override { return "toy"; }
  bool on_host() const override { return true; }
  DeviceProperties properties(int) override {
    DeviceProperties p;
    p.name = "a toy";
    p.backend = "toy";
    p.multiprocessors = 1;
    p.memory = device_memory;
    p.max_resident_kernels = 1;
    p.max_threads_per_block = 1024;
    p.max_shared_bytes_per_block = std::size_t{48} << 10;
    p.memory_pools = true;
    return p;
  }
  Queue& open_queue(int, const QueueOptions& options) override {
    ToyQueue& queue = Recycled<ToyQueue>::all().take();
    queue.open(options);
    return queue;
  }
  detail::EventState& open_event(int device, bool timed) override {
    ToyEvent& event = Recycled<ToyEvent>::all().take();
    event.backend = this;
    event.device = device;
    event.timed = timed;
    return event;
  }
  std::optional<PointerInfo> locate(const void* data) override { return blocks.find(data); }
  detail::PoolState& default_pool(int) override { return default_pool_; }
  detail::PoolState& open_pool(int, const PoolOptions& options) override { return *new ToyPool(*this, options); }
  void synchronize(int, const char*, SourceLocation) override {
    if (const SharedFailure failure = failures.oldest()) tell(*failure);
  }

 private:
  ToyPool default_pool_{*this, {.release_threshold = ~std::size_t{0}}};
};

}  // namespace

Backend& backend() {
  static auto& only = *new ToyBackend;  // outlives every static object of the program
  return only;
}

}  // namespace weir::toy
