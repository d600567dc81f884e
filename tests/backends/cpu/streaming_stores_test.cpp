// Copies and fills past the caches: every byte of theirs and none beside it, wherever the memory begins and ends.
#include <gtest/gtest.h>

#include <cstddef>
#include <cstring>
#include <vector>

#include "backends/cpu/memory/streaming_stores.hpp"

namespace weir_test {
namespace {

constexpr std::size_t whole = std::size_t{1} << 30;  // of a copy that does not stay in caches
constexpr std::size_t room = 64;
constexpr std::byte untouched{0xA5};

std::byte nth(std::size_t i) { return static_cast<std::byte>(i * 7 + i / 251); }

const std::size_t sizes[] = {0, 1, 15, 16, 63, 64, 65, 127, 128, 129, 191, 200, 4'095, 4'096, 20'000, 70'001};

TEST(StreamingStores, copy_every_byte_and_none_beside_them) {
  for (const std::size_t bytes : sizes) {
    for (const std::size_t to_offset : {0u, 1u, 8u, 16u, 33u, 63u}) {
      for (const std::size_t from_offset : {0u, 1u, 16u, 63u}) {
        std::vector<std::byte> from(bytes + room);
        for (std::size_t i = 0; i < bytes; ++i) from[from_offset + i] = nth(i);
        std::vector<std::byte> to(bytes + 2 * room, untouched);
        weir::cpu::copy_streaming(to.data() + to_offset, from.data() + from_offset, bytes, whole);
        std::vector<std::byte> wanted(bytes + 2 * room, untouched);
        for (std::size_t i = 0; i < bytes; ++i) wanted[to_offset + i] = nth(i);
        ASSERT_TRUE(to == wanted) << bytes << " bytes from " << from_offset << " to " << to_offset;
      }
    }
  }
}

void expect_filled(const std::byte (&value)[8], std::size_t whole_bytes) {
  for (const std::size_t element : {1u, 2u, 4u, 8u, 3u}) {
    for (const std::size_t size : sizes) {
      const std::size_t bytes = size / element * element;
      for (const std::size_t offset : {0u, 1u, 4u, 33u, 63u}) {
        std::vector<std::byte> to(bytes + 2 * room, untouched);
        weir::cpu::fill_streaming(to.data() + offset, bytes, value, element, whole_bytes);
        std::vector<std::byte> wanted(bytes + 2 * room, untouched);
        for (std::size_t i = 0; i < bytes; ++i) wanted[offset + i] = value[i % element];
        ASSERT_TRUE(to == wanted) << bytes << " bytes of " << element << " at " << offset;
      }
    }
  }
}

TEST(StreamingStores, fill_every_element_and_nothing_beside_them) {
  const std::byte different[] = {std::byte{1}, std::byte{2}, std::byte{3}, std::byte{4},
                                 std::byte{5}, std::byte{6}, std::byte{7}, std::byte{8}};
  const std::byte same[] = {std::byte{9}, std::byte{9}, std::byte{9}, std::byte{9},
                            std::byte{9}, std::byte{9}, std::byte{9}, std::byte{9}};
  for (const std::size_t bytes : {whole, std::size_t{1}}) {  // past the caches, and through them
    expect_filled(different, bytes);
    expect_filled(same, bytes);
  }
}

}  // namespace
}  // namespace weir_test
