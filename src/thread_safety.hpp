// What Clang's thread-safety analysis is told: which lock guards what, and who must hold it. Other compilers see plain locks.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <shared_mutex>

#if defined(__clang__)
#define WEIR_TOLD_CLANG(attribute) __attribute__((attribute))
#else
#define WEIR_TOLD_CLANG(attribute)
#endif

/// Of a type: objects of it are locks, or hold a lock while they live.
#define WEIR_LOCK WEIR_TOLD_CLANG(capability("lock"))
#define WEIR_LOCK_HOLDER WEIR_TOLD_CLANG(scoped_lockable)
/// Of a member or variable: used only while the lock is held.
#define WEIR_GUARDED_BY(lock) WEIR_TOLD_CLANG(guarded_by(lock))
/// Of a function: the caller holds the lock.
#define WEIR_NEEDS(...) WEIR_TOLD_CLANG(requires_capability(__VA_ARGS__))
/// Of a function: it takes the lock, or gives it back.
#define WEIR_TAKES(...) WEIR_TOLD_CLANG(acquire_capability(__VA_ARGS__))
#define WEIR_TAKES_SHARED(...) WEIR_TOLD_CLANG(acquire_shared_capability(__VA_ARGS__))
#define WEIR_GIVES(...) WEIR_TOLD_CLANG(release_capability(__VA_ARGS__))
#define WEIR_GIVES_SHARED(...) WEIR_TOLD_CLANG(release_shared_capability(__VA_ARGS__))
/// Of a function: what it returns is that lock.
#define WEIR_RETURNS(lock) WEIR_TOLD_CLANG(lock_returned(lock))
/// Of a function that the analysis cannot follow; say why beside it.
#define WEIR_NOT_ANALYSED WEIR_TOLD_CLANG(no_thread_safety_analysis)

namespace weir::detail {

/// std::mutex and its relatives, known to the analysis. They serve std::condition_variable_any, too.
class WEIR_LOCK Mutex {
 public:
  void lock() WEIR_TAKES() { mutex_.lock(); }
  void unlock() WEIR_GIVES() { mutex_.unlock(); }

 private:
  std::mutex mutex_;
};

/// First come, first served: a thread that takes it again and again, and waits while it has it, keeps no other one out.
class WEIR_LOCK FairMutex {
 public:
  void lock() WEIR_TAKES() {
    const std::uint32_t mine = next_.fetch_add(1);
    for (std::uint32_t now = turn_.load(); now != mine; now = turn_.load()) turn_.wait(now);
  }
  void unlock() WEIR_GIVES() {
    turn_.fetch_add(1);
    turn_.notify_all();
  }

 private:
  std::atomic<std::uint32_t> next_{0};
  std::atomic<std::uint32_t> turn_{0};
};

class WEIR_LOCK SharedMutex {
 public:
  void lock() WEIR_TAKES() { mutex_.lock(); }
  void unlock() WEIR_GIVES() { mutex_.unlock(); }
  void lock_shared() WEIR_TAKES_SHARED() { mutex_.lock_shared(); }
  void unlock_shared() WEIR_GIVES_SHARED() { mutex_.unlock_shared(); }

 private:
  std::shared_mutex mutex_;
};

/// May be taken again by the thread that has it.
class WEIR_LOCK RecursiveMutex {
 public:
  void lock() WEIR_TAKES() { mutex_.lock(); }
  void unlock() WEIR_GIVES() { mutex_.unlock(); }

 private:
  std::recursive_mutex mutex_;
};

/// Holds any of the locks while it lives.
template <class Lock>
class WEIR_LOCK_HOLDER LockGuard {
 public:
  explicit LockGuard(Lock& lock) WEIR_TAKES(lock) : lock_(lock) { lock_.lock(); }
  ~LockGuard() WEIR_GIVES() { lock_.unlock(); }
  LockGuard(const LockGuard&) = delete;
  LockGuard& operator=(const LockGuard&) = delete;

 private:
  Lock& lock_;
};

/// The same, but it may be given back before, and taken again.
template <class Lock>
class WEIR_LOCK_HOLDER UniqueLock {
 public:
  explicit UniqueLock(Lock& lock) WEIR_TAKES(lock) : lock_(lock) { lock_.lock(); }
  ~UniqueLock() WEIR_GIVES() {
    if (held_) lock_.unlock();
  }
  UniqueLock(const UniqueLock&) = delete;
  UniqueLock& operator=(const UniqueLock&) = delete;
  void lock() WEIR_TAKES() {
    lock_.lock();
    held_ = true;
  }
  void unlock() WEIR_GIVES() {
    held_ = false;
    lock_.unlock();
  }
  /// Stays held behind this object's end, for another function to give back: neither of both can be analysed.
  void release() { held_ = false; }

 private:
  Lock& lock_;
  bool held_ = true;
};

/// The same beside others that share it.
class WEIR_LOCK_HOLDER SharedGuard {
 public:
  explicit SharedGuard(SharedMutex& lock) WEIR_TAKES_SHARED(lock) : lock_(lock) { lock_.lock_shared(); }
  ~SharedGuard() WEIR_GIVES() { lock_.unlock_shared(); }
  SharedGuard(const SharedGuard&) = delete;
  SharedGuard& operator=(const SharedGuard&) = delete;

 private:
  SharedMutex& lock_;
};

}  // namespace weir::detail
