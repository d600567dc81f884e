// A graph's file: a header, and little-endian fields in the order in which they are written here.
//
//   header   "WEIRGRPH", u32 version, u32 0, u64 length of what follows, u64 CRC-32 of what follows
//   buffers  u32 count, each: u8 memory kind, u64 bytes, the bytes
//   names    u32 count, each: text, u32 buffer, u64 offset, shape, u64 bytes of an element
//   nodes    u32 count, each: u8 kind, i32 parent, u32 branch, i32 priority, u64 stream, text stream name, text file,
//            u32 line, u8 enabled, u32 count of dependencies, each u32; regions; then what the kind needs
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include <weir/graph_file.hpp>

#include "graph_form.hpp"

namespace weir::detail {

inline constexpr std::string_view file_magic = "WEIRGRPH";
inline constexpr std::uint32_t file_version = 2;
inline constexpr std::size_t header_bytes = 32;
inline constexpr std::uint32_t no_buffer = ~std::uint32_t{0};
/// For sums and products of what a file says.
__extension__ using Wide = unsigned __int128;

std::uint64_t checksum(std::span<const std::byte> bytes);

class ByteWriter {
 public:
  template <class T>
    requires std::is_arithmetic_v<T> || std::is_enum_v<T>
  void put(T value) { append(&value, sizeof value); }
  void text(std::string_view text) {
    put(static_cast<std::uint32_t>(text.size()));
    append(text.data(), text.size());
  }
  void append(const void* data, std::size_t size) {
    const auto* bytes = static_cast<const std::byte*>(data);
    bytes_.resize(bytes_.size() + size);  // not insert: g++ 12 warns of it at -O3, wrongly
    std::copy(bytes, bytes + size, bytes_.end() - static_cast<std::ptrdiff_t>(size));
  }
  void shape(const Shape& shape) {
    put(static_cast<std::uint32_t>(shape.rank()));
    for (std::size_t d = 0; d < max_rank; ++d) put(static_cast<std::uint64_t>(shape[d]));
  }
  const std::vector<std::byte>& bytes() const { return bytes_; }

 private:
  std::vector<std::byte> bytes_;
};

/// What a reader throws; becomes Error(not_a_graph_file).
struct Damaged {
  const char* what;
};

class ByteReader {
 public:
  explicit ByteReader(std::span<const std::byte> bytes) : left_(bytes) {}
  template <class T>
    requires std::is_arithmetic_v<T> T get() {
      T value;
      std::memcpy(&value, take(sizeof value).data(), sizeof value);
      return value;
    }
  std::string text() {
    const auto size = get<std::uint32_t>();
    const auto bytes = take(size);
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }
  std::span<const std::byte> take(std::uint64_t size) {
    if (size > left_.size()) throw Damaged{"it ends too early"};
    const auto taken = left_.first(size);
    left_ = left_.subspan(size);
    return taken;
  }
  /// A number of items of at least `least` bytes each: no more than there is room for.
  std::uint32_t count(std::size_t least) {
    const auto count = get<std::uint32_t>();
    if (count > left_.size() / least) throw Damaged{"a count is larger than the file"};
    return count;
  }
  Shape shape();
  bool empty() const { return left_.empty(); }

 private:
  std::span<const std::byte> left_;
};

/// A place in one of the file's buffers.
struct FilePlace {
  std::uint32_t buffer = no_buffer;
  std::uint64_t offset = 0;
};
struct FileBuffer {
  MemoryKind kind;
  std::span<const std::byte> contents;
};
struct FileName {
  std::string name;
  FilePlace place;
  Shape shape;
  std::uint64_t element_bytes;
};
struct FileRegion {
  FilePlace place;
  std::uint64_t row_bytes, rows, pitch;
  Access access;
};
struct FileNode {
  FormNode form;  ///< without payload
  std::string file;
  std::vector<FileRegion> uses;
  std::string kernel;  ///< launch: the registered name
  std::string name;    ///< launch: the user's, or empty
  Shape extent;
  std::uint32_t block = 0, threads = 0;
  std::uint64_t shared_bytes = 0;
  std::span<const std::byte> closure;
  FilePlace to, from;  ///< copy, fill; alloc, free and conditional use `to`
  Layout to_layout, from_layout;
  std::span<const std::byte> value;  ///< fill
};
struct FileGraph {
  std::vector<std::byte> bytes;  ///< what follows the header; what the spans point into
  std::vector<FileBuffer> buffers;
  std::vector<FileName> names;
  std::vector<FileNode> nodes;
};

/// Reads a file and checks everything that can be checked without kernels or a device. Throws Error(not_a_graph_file).
FileGraph read_file(const std::string& path, const char* operation, SourceLocation where);

/// Whether elements laid out so lie inside `bytes` bytes. Strides in bytes, not negative.
bool fits(std::uint64_t bytes, std::uint64_t offset, const Shape& shape, const std::ptrdiff_t* strides,
          std::uint64_t element_bytes);

const RegisteredKernel* find_kernel(const Kernel& kernel);
const RegisteredKernel* find_kernel(std::string_view name);

}  // namespace weir::detail
