// Copies whose target nobody reads soon from a cache: non-temporal stores by SSE2, which every x86-64 has; memcpy elsewhere.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#if defined(__x86_64__)
#include <emmintrin.h>
#endif

namespace weir::detail {

inline constexpr std::size_t cache_line = 64;
/// So far before a line its load begins: the processors' own prefetchers stop at the end of a page.
inline constexpr std::size_t bytes_ahead = 8192;

inline std::size_t bytes_to_line(const std::byte* at) {
  return (cache_line - reinterpret_cast<std::uintptr_t>(at) % cache_line) % cache_line;
}

#if defined(__x86_64__)
inline void copy_lines_past_caches(std::byte* to, const std::byte* from, std::size_t lines) {
  for (std::size_t i = 0; i < lines; ++i, to += cache_line, from += cache_line) {
    _mm_prefetch(reinterpret_cast<const char*>(from) + bytes_ahead, _MM_HINT_T0);
    const auto* source = reinterpret_cast<const __m128i*>(from);
    const __m128i a = _mm_loadu_si128(source);
    const __m128i b = _mm_loadu_si128(source + 1);
    const __m128i c = _mm_loadu_si128(source + 2);
    const __m128i d = _mm_loadu_si128(source + 3);
    auto* target = reinterpret_cast<__m128i*>(to);
    _mm_stream_si128(target, a);
    _mm_stream_si128(target + 1, b);
    _mm_stream_si128(target + 2, c);
    _mm_stream_si128(target + 3, d);
  }
  _mm_sfence();  // before the word that says that it is there
}
#endif

inline void copy_past_caches(std::byte* to, const std::byte* from, std::size_t bytes) {
#if defined(__x86_64__)
  const std::size_t head = std::min(bytes_to_line(to), bytes);
  std::memcpy(to, from, head);
  const std::size_t lines = (bytes - head) / cache_line;
  copy_lines_past_caches(to + head, from + head, lines);
  const std::size_t done = head + lines * cache_line;
  std::memcpy(to + done, from + done, bytes - done);
#else
  std::memcpy(to, from, bytes);
#endif
}

}  // namespace weir::detail
