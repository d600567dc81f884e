// What ThreadSanitizer sees of the fake: nothing of its own locks and tables, which would order the backend's threads where
// the driver does not; and the order that the driver does promise, said with acquire() and release().
#pragma once

#if defined(__SANITIZE_THREAD__)
#define FAKE_CUDA_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define FAKE_CUDA_TSAN 1
#endif
#endif

#if defined(FAKE_CUDA_TSAN)
extern "C" {
void AnnotateIgnoreReadsBegin(const char* file, int line);
void AnnotateIgnoreReadsEnd(const char* file, int line);
void AnnotateIgnoreWritesBegin(const char* file, int line);
void AnnotateIgnoreWritesEnd(const char* file, int line);
void AnnotateIgnoreSyncBegin(const char* file, int line);
void AnnotateIgnoreSyncEnd(const char* file, int line);
void __tsan_acquire(void* address);
void __tsan_release(void* address);
}
#endif

namespace fake_cuda {

#if defined(FAKE_CUDA_TSAN)
inline constexpr bool watched = true;
inline void acquire(void* address) { __tsan_acquire(address); }
inline void release(void* address) { __tsan_release(address); }
inline void hide() {
  AnnotateIgnoreSyncBegin(__FILE__, __LINE__);
  AnnotateIgnoreReadsBegin(__FILE__, __LINE__);
  AnnotateIgnoreWritesBegin(__FILE__, __LINE__);
}
inline void show() {
  AnnotateIgnoreWritesEnd(__FILE__, __LINE__);
  AnnotateIgnoreReadsEnd(__FILE__, __LINE__);
  AnnotateIgnoreSyncEnd(__FILE__, __LINE__);
}
#else
inline constexpr bool watched = false;
inline void acquire(void*) {}
inline void release(void*) {}
inline void hide() {}
inline void show() {}
#endif

class Hidden {
 public:
  Hidden() { hide(); }
  ~Hidden() { show(); }
  Hidden(const Hidden&) = delete;
  Hidden& operator=(const Hidden&) = delete;
};
class Shown {
 public:
  Shown() { show(); }
  ~Shown() { hide(); }
  Shown(const Shown&) = delete;
  Shown& operator=(const Shown&) = delete;
};

}  // namespace fake_cuda
