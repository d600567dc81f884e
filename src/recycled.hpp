// Memory of objects that one thread makes, and another one ends, in a row: kept for the next one of its size.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <new>
#include <utility>

#if defined(__SANITIZE_ADDRESS__)
#define WEIR_CHECKS_ADDRESSES 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define WEIR_CHECKS_ADDRESSES 1
#endif
#endif

namespace weir::detail {

/// Who makes objects has some of his own, and takes all that were given back when none is left. So nobody waits, and who ends objects
/// takes no lock of the allocator's beside who makes them. Where addresses are checked, all come from the heap.
template <std::size_t bytes>
class RecycledMemory {
 public:
  static void* take() {
#if !defined(WEIR_CHECKS_ADDRESSES)
    if (own == nullptr && !ended) {
      [[maybe_unused]] static thread_local const End end;
      own = given.load(std::memory_order_relaxed) == nullptr ? nullptr
                                                             : given.exchange(nullptr, std::memory_order_acquire);
      count.store(0, std::memory_order_relaxed);
    }
    if (own != nullptr) return std::exchange(own, own->next);
#endif
    return ::operator new(bytes);
  }
  static void give(void* memory) noexcept {
#if !defined(WEIR_CHECKS_ADDRESSES)
    // Other threads count beside this one, and who has just taken them all does: it is about so many.
    if (count.fetch_add(1, std::memory_order_relaxed) < most) {
      auto* const one = new (memory) Free{given.load(std::memory_order_relaxed)};
      while (!given.compare_exchange_weak(one->next, one, std::memory_order_release, std::memory_order_relaxed)) {
      }
      return;
    }
#endif
    ::operator delete(memory);
  }

 private:
  struct Free {
    Free* next;
  };
  static_assert(bytes >= sizeof(Free));
  /// What a thread has goes with it.
  struct End {
    ~End() {
      ended = true;
      while (own != nullptr) ::operator delete(std::exchange(own, own->next));
    }
  };

  static constexpr std::size_t most = 1024;
  static inline constinit std::atomic<Free*> given{nullptr};
  static inline constinit std::atomic<std::size_t> count{0};
  static inline constinit thread_local Free* own = nullptr;
  static inline constinit thread_local bool ended = false;
};

template <class T>
struct RecycledMemoryOf : RecycledMemory<sizeof(T)> {
  static_assert(alignof(T) <= __STDCPP_DEFAULT_NEW_ALIGNMENT__);
};

/// A base of the class of which objects are made, one by one.
template <class T>
struct Recycled {
  static void* operator new(std::size_t) { return RecycledMemoryOf<T>::take(); }
  static void operator delete(void* memory) noexcept { RecycledMemoryOf<T>::give(memory); }
};

/// The same for std::allocate_shared(), which asks for one.
template <class T>
struct RecyclingAllocator {
  using value_type = T;

  RecyclingAllocator() = default;
  template <class Other>
  RecyclingAllocator(const RecyclingAllocator<Other>&) noexcept {}
  T* allocate(std::size_t) { return static_cast<T*>(RecycledMemoryOf<T>::take()); }
  void deallocate(T* memory, std::size_t) noexcept { RecycledMemoryOf<T>::give(memory); }
  friend bool operator==(const RecyclingAllocator&, const RecyclingAllocator&) noexcept { return true; }
};

template <class T, class... Arguments>
std::shared_ptr<T> make_recycled(Arguments&&... arguments) {
  return std::allocate_shared<T>(RecyclingAllocator<T>(), std::forward<Arguments>(arguments)...);
}

}  // namespace weir::detail
