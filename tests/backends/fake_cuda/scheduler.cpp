// Commands become ready, run on threads, and finish.
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <utility>

#include "backends/fake_cuda/world.hpp"

namespace fake_cuda {

namespace {

constexpr std::size_t most_threads = 512;

/// Runs it, seen by ThreadSanitizer, behind all that it comes after. The lock is not held.
void run_op(Op& op, const std::function<void()>& run) {
  std::vector<void*> earlier;
  if (op.token) earlier.push_back(op.token.get());
  for (const OpRef& before : op.behind) earlier.push_back(before.get());
  const Shown shown;
  for (void* one : earlier) acquire(one);
  if (run) {
    try {
      run();
    } catch (...) {
      // A kernel that throws would trap.
      const Hidden hidden;
      const std::lock_guard guard(world().mutex);
      break_world(cudaErrorLaunchFailure);
    }
  }
  release(&op);
}

/// The lock is held, and given back meanwhile.
void run_and_finish(const OpRef& op, std::unique_lock<std::mutex>& lock) {
  const bool skip =
      world().failure != cudaSuccess && !op->deferred && (op->kind == Op::Kind::host || op->kind == Op::Kind::work);
  std::function<void()> run = std::move(op->run);
  lock.unlock();
  run_op(*op, skip ? std::function<void()>() : run);
  run = nullptr;
  lock.lock();
  if (!op->deferred) finish(op);
}

void work_loop() {
  const Hidden hidden;
  World& all = world();
  std::unique_lock lock(all.mutex);
  for (;;) {
    ++all.idle;
    while (all.ready.empty()) all.work.wait(lock);
    --all.idle;
    const OpRef op = std::move(all.ready.front());
    all.ready.pop_front();
    run_and_finish(op, lock);
  }
}

/// Host functions of a device run one after the other (R87).
void host_loop(int index) {
  const Hidden hidden;
  World& all = world();
  Device& device = *all.devices[static_cast<std::size_t>(index)];
  on_host_thread() = true;
  std::unique_lock lock(all.mutex);
  for (;;) {
    while (device.host_functions.empty()) device.host_work.wait(lock);
    const OpRef op = std::move(device.host_functions.front());
    device.host_functions.pop_front();
    run_and_finish(op, lock);
  }
}

/// Looks at the words that streams wait for.
void word_loop() {
  const Hidden hidden;
  World& all = world();
  std::unique_lock lock(all.mutex);
  for (;;) {
    while (all.words.empty()) all.words_changed.wait(lock);
    std::vector<OpRef> reached;
    const auto look = [&](const OpRef& op) {
      std::uint32_t now;
      {
        const std::uint32_t* word = op->word;
        void* token = op->token.get();
        const Shown shown;
        if (token != nullptr) acquire(token);
        now = __atomic_load_n(word, __ATOMIC_ACQUIRE);
      }
      if (static_cast<std::int32_t>(now - op->at_least) < 0 && all.failure == cudaSuccess) return false;
      reached.push_back(op);
      return true;
    };
    std::erase_if(all.words, look);
    for (const OpRef& op : reached) {
      Op* address = op.get();
      std::vector<void*> earlier;
      for (const OpRef& before : op->behind) earlier.push_back(before.get());
      {
        const Shown shown;
        for (void* one : earlier) acquire(one);
        release(address);
      }
      finish(op);
    }
    if (all.words.empty()) continue;
    lock.unlock();
    std::this_thread::sleep_for(std::chrono::microseconds(50));
    lock.lock();
  }
}

void start_thread(void (*loop)()) { std::thread(loop).detach(); }

bool is_paused(const Op& op) {
  if (op.stream && op.stream->paused > 0) return true;
  return world().devices[static_cast<std::size_t>(op.device)]->paused > 0;
}

void make_ready(const OpRef& op, std::vector<OpRef>& finished) {
  World& all = world();
  if (is_paused(*op)) {
    all.parked.push_back(op);
    return;
  }
  switch (op->kind) {
    case Op::Kind::marker:
      // Where ThreadSanitizer watches, a thread that is behind all of them runs it.
      if (!watched && !op->run) {
        finished.push_back(op);
        return;
      }
      [[fallthrough]];
    case Op::Kind::work:
      all.ready.push_back(op);
      if (all.idle < all.ready.size() && all.threads < most_threads) {
        ++all.threads;
        start_thread(&work_loop);
      }
      all.work.notify_one();
      return;
    case Op::Kind::host:
    case Op::Kind::callback: {
      Device& device = *all.devices[static_cast<std::size_t>(op->device)];
      device.host_functions.push_back(op);
      if (!device.host_thread) {
        device.host_thread = true;
        std::thread(&host_loop, op->device).detach();
      }
      device.host_work.notify_one();
      return;
    }
    case Op::Kind::word:
      all.words.push_back(op);
      if (!all.word_thread) {
        all.word_thread = true;
        start_thread(&word_loop);
      }
      all.words_changed.notify_one();
      return;
  }
}

void finish_all(std::vector<OpRef>& finished) {
  World& all = world();
  const Clock::time_point now = Clock::now();
  while (!finished.empty()) {
    const OpRef op = std::move(finished.back());
    finished.pop_back();
    op->done = true;
    op->finished = now;
    --all.pending;
    if (op->stream) {
      op->stream->room_taken -= op->room;
      if (op->pair) --op->stream->pairs;
    }
    op->run = nullptr;
    op->behind.clear();
    op->token.reset();
    op->stream.reset();
    for (const OpRef& next : std::exchange(op->next, {})) {
      if (--next->waiting == 0) make_ready(next, finished);
    }
  }
  if (all.waiters > 0) all.done.notify_all();
}

}  // namespace

void depend(const OpRef& op, const OpRef& on) {
  if (!on) return;
  if constexpr (watched) op->behind.push_back(on);
  if (on->done) return;
  on->next.push_back(op);
  ++op->waiting;
}

OpRef new_op(Call& call, Op::Kind kind, int device, std::function<void()> run) {
  auto op = std::make_shared<Op>();
  op->kind = kind;
  op->device = device;
  op->run = std::move(run);
  op->token = call.token;
  ++world().pending;
  return op;
}

void finish(const OpRef& op) {
  std::vector<OpRef> finished{op};
  finish_all(finished);
}

void submit(const OpRef& op) {
  std::vector<OpRef> finished;
  if (--op->waiting == 0) make_ready(op, finished);
  finish_all(finished);
}

bool is_done(Call& call, const OpRef& op) {
  if (!op) return true;
  if (!op->done) return false;
  if constexpr (watched) call.seen.push_back(op);
  return true;
}

void wait_while(Call& call, const std::function<bool()>& condition) {
  World& all = world();
  ++all.waiters;
  while (condition()) all.done.wait(call.lock);
  --all.waiters;
}

void wait_for(Call& call, const OpRef& op) {
  if (!op) return;
  if (!op->done) wait_while(call, [&] { return !op->done; });
  if constexpr (watched) call.seen.push_back(op);
}

void unpark() {
  std::vector<OpRef> finished;
  for (const OpRef& op : std::exchange(world().parked, {})) make_ready(op, finished);
  finish_all(finished);
}

std::vector<OpRef> last_ops(int device) {
  World& all = world();
  std::vector<OpRef> ops;
  const auto add = [&](const CUstream_st& stream) {
    if (stream.last && (device < 0 || stream.device == device)) ops.push_back(stream.last);
  };
  for (const auto& one : all.devices) add(*one->legacy);
  for (const auto& [handle, stream] : all.streams) add(*stream);
  std::erase_if(all.ended, [](const StreamRef& stream) { return !stream->last || stream->last->done; });
  for (const StreamRef& stream : all.ended) add(*stream);
  return ops;
}

void break_world(int error) {
  World& all = world();
  if (all.failure == cudaSuccess) all.failure = error;
  all.words_changed.notify_all();
}

}  // namespace fake_cuda
