// By the size of the whole: past the caches or through them.
#include "backends/cpu/memory/streaming_stores.hpp"

#include <algorithm>
#include <cstring>

#include "past_caches.hpp"

namespace weir::cpu {

namespace {

/// Larger targets leave the caches before somebody reads them: other streams' copies, and what these read, go through them, too.
constexpr std::size_t stays_in_cache = 4 * 1024 * 1024;

#if defined(__x86_64__)
void fill_lines(std::byte* to, std::size_t lines, const std::byte* pattern) {
  const auto* source = reinterpret_cast<const __m128i*>(pattern);
  const __m128i a = _mm_loadu_si128(source);
  const __m128i b = _mm_loadu_si128(source + 1);
  const __m128i c = _mm_loadu_si128(source + 2);
  const __m128i d = _mm_loadu_si128(source + 3);
  for (std::size_t i = 0; i < lines; ++i, to += 64) {
    auto* target = reinterpret_cast<__m128i*>(to);
    _mm_stream_si128(target, a);
    _mm_stream_si128(target + 1, b);
    _mm_stream_si128(target + 2, c);
    _mm_stream_si128(target + 3, d);
  }
  _mm_sfence();
}
#endif

}  // namespace

void copy_streaming(std::byte* to, const std::byte* from, std::size_t bytes, std::size_t whole) {
  if (whole >= stays_in_cache) return detail::copy_past_caches(to, from, bytes);
  std::memcpy(to, from, bytes);
}

void fill_dense(std::byte* to, std::size_t bytes, const std::byte* value, std::size_t element_bytes) {
  if (bytes == 0) return;
  if (std::all_of(value, value + element_bytes, [&](std::byte b) { return b == value[0]; })) {
    std::memset(to, std::to_integer<int>(value[0]), bytes);
    return;
  }
  std::memcpy(to, value, element_bytes);
  for (std::size_t done = element_bytes; done < bytes;) {
    const std::size_t step = std::min(done, bytes - done);
    std::memcpy(to + done, to, step);
    done += step;
  }
}

void fill_streaming(std::byte* to, std::size_t bytes, const std::byte* value, std::size_t element_bytes,
                    std::size_t whole) {
#if defined(__x86_64__)
  // A pattern that divides a line repeats in each; it is turned so that lines may begin inside an element.
  if (whole >= stays_in_cache && 64 % element_bytes == 0 && bytes >= 128) {
    std::byte pattern[128];
    fill_dense(pattern, sizeof pattern, value, element_bytes);
    const std::size_t head = detail::bytes_to_line(to);
    std::memcpy(to, pattern, head);
    const std::size_t turned = head % element_bytes;
    const std::size_t lines = (bytes - head) / 64;
    fill_lines(to + head, lines, pattern + turned);
    const std::size_t done = head + lines * 64;
    std::memcpy(to + done, pattern + turned, bytes - done);
    return;
  }
#endif
  static_cast<void>(whole);
  fill_dense(to, bytes, value, element_bytes);
}

}  // namespace weir::cpu
