// Integers that the host and the kernels of every device can read and write while work is running.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <thread>

#include <weir/weir.hpp>

namespace weir_test {

#if defined(__CUDA_ARCH__)
WEIR_KERNEL inline int load_word(const int* word) {
  const int value = *static_cast<const volatile int*>(word);
  __threadfence_system();
  return value;
}
WEIR_KERNEL inline void store_word(int* word, int value) {
  __threadfence_system();
  *static_cast<volatile int*>(word) = value;
  __threadfence_system();
}
WEIR_KERNEL inline int add_to_word(int* word, int value) {
  __threadfence_system();
  // Atomic among the threads of one GPU. For the host and other GPUs it is not, wherever the word is in pinned memory.
  const int before = atomicAdd(word, value);
  __threadfence_system();
  return before;
}
#else
WEIR_KERNEL inline int load_word(const int* word) { return __atomic_load_n(word, __ATOMIC_ACQUIRE); }
WEIR_KERNEL inline void store_word(int* word, int value) { __atomic_store_n(word, value, __ATOMIC_RELEASE); }
WEIR_KERNEL inline int add_to_word(int* word, int value) { return __atomic_fetch_add(word, value, __ATOMIC_ACQ_REL); }
#endif

/// Waits inside a kernel or host function until the word is not 0. False if that took about 20 s: then something is
/// broken, and going on lets the test report it.
WEIR_KERNEL inline bool wait_for_word(const int* word) {
#if defined(__CUDA_ARCH__)
  unsigned long long begin, now;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(begin));
  do {
    if (load_word(word) != 0) return true;
    __nanosleep(1000);
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
  } while (now - begin < 20'000'000'000ull);
#else
  // The longer it has waited, the less often it looks: many held kernels would take all cores from what is tested.
  const auto begin = std::chrono::steady_clock::now();
  for (std::chrono::nanoseconds waited{0}; waited < std::chrono::seconds(20);) {
    if (load_word(word) != 0) return true;
    std::this_thread::sleep_for(
        std::clamp<std::chrono::nanoseconds>(waited / 8, std::chrono::microseconds(20), std::chrono::milliseconds(1)));
    waited = std::chrono::steady_clock::now() - begin;
  }
#endif
  return load_word(word) != 0;
}

/// `count` fresh zeros in pinned memory. They are never given back, so that a kernel that outlives its test by a defect
/// writes to nobody's memory.
int* make_words(std::size_t count);

}  // namespace weir_test
