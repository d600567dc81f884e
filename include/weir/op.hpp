// The one list of commands. A stream turns calls into commands; backends run them, observers watch them, graphs keep them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <variant>

#include <weir/shape.hpp>
#include <weir/source_location.hpp>

namespace weir {

using CommandId = std::uint64_t;  ///< unique in the process while anything observes; 0 otherwise
using StreamId = std::uint64_t;   ///< unique in the process, never used again (R15)
using BufferId = std::uint64_t;   ///< one allocation; 0 for memory that Weir did not allocate

enum class MemoryKind : std::uint8_t { pageable, pinned, device };
enum class Access : std::uint8_t { read = 1, write = 2, read_write = 3 };

/// Memory that a command reads or writes: `rows` runs of `row_bytes`, `pitch` bytes apart. Exact for contiguous and
/// pitched memory; a bounding box for other strides.
struct Region {
  const void* begin = nullptr;
  std::size_t row_bytes = 0;
  std::size_t rows = 1;
  std::size_t pitch = 0;
  BufferId buffer = 0;
  Access access = Access::read;

  constexpr std::size_t extent_bytes() const { return rows == 0 ? 0 : (rows - 1) * pitch + row_bytes; }
};

/// Elements in memory: up to four dimensions with byte strides.
struct Layout {
  Shape shape;
  std::ptrdiff_t stride[max_rank] = {};
  std::size_t element_bytes = 0;
};

struct Kernel;  // kernel.hpp: the code of one kernel for every compiler that met it

namespace detail {
struct EventState;
struct PoolState;
struct GraphState;
class HostFunction;
}  // namespace detail

/// Runs a kernel over `extent` elements, or over `extent` blocks of `threads` threads with `shared_bytes` of memory each.
struct Launch {
  const Kernel* kernel;
  const void* closure;  ///< the functor and its arguments; copied before submit returns
  Shape extent;
  std::uint32_t block = 0;    ///< threads per block; 0: the backend chooses
  std::uint32_t threads = 0;  ///< cooperative kernels only
  std::size_t shared_bytes = 0;
  const char* name = nullptr;  ///< the user's name for it, else null
};

/// Copies elements; shapes are equal, layouts may differ.
struct Copy {
  void* to;
  const void* from;
  Layout to_layout;
  Layout from_layout;
  MemoryKind to_kind;
  MemoryKind from_kind;
  int to_device = 0;  ///< index among the backend's devices, where the kind is device
  int from_device = 0;
};

/// Writes the same element everywhere.
struct Fill {
  void* to;
  Layout layout;
  const void* value;  ///< layout.element_bytes long; copied before submit returns
  MemoryKind kind;
};

/// Stream-ordered allocation and its end: the memory is the stream's from here on, and nobody's after.
struct Alloc {
  void* data;
  std::size_t bytes;
  BufferId buffer;
  detail::PoolState* pool;
};
struct Free {
  void* data;
  std::size_t bytes;
  BufferId buffer;
  detail::PoolState* pool;
};

/// Marks the stream's present end in an event (C9). `record` numbers the records of an event: a wait names the one it takes.
struct Record {
  detail::EventState* event;
  std::uint64_t event_id;
};
/// Holds the stream's later commands back until the event's last record before this wait is reached (R70, R72).
struct Wait {
  detail::EventState* event;
  std::uint64_t event_id;
};

/// Runs a host function in stream order. The queue owns `function` once submit returned.
struct HostCall {
  detail::HostFunction* function;
};

/// Work of a foreign library on the stream, with what it touches declared. Owned like a host function.
struct External {
  detail::HostFunction* function;
};

/// Replays a graph.
struct GraphLaunch {
  detail::GraphState* graph;
};

using Op = std::variant<Launch, Copy, Fill, Alloc, Free, Record, Wait, HostCall, External, GraphLaunch>;

/// An op in its stream. Pointers and spans inside are valid for the duration of the call that hands the command over;
/// whoever keeps a command copies what it needs.
struct Command {
  CommandId id = 0;
  StreamId stream = 0;
  SourceLocation where;
  std::span<const Region> uses;
  Op op;
};

namespace detail {
template <class... F>
struct Overloaded : F... {
  using F::operator()...;
};
template <class... F>
Overloaded(F...) -> Overloaded<F...>;

template <class Visitor, class... Ops>
constexpr bool handles_every(const std::variant<Ops...>*) {
  return (std::is_invocable_v<Visitor, const Ops&> && ...);
}
}  // namespace detail

/// Visits an op with one callable per kind of op. A kind without a callable does not compile, and says so.
template <class... F>
decltype(auto) visit_op(const Op& op, F&&... cases) {
  using Visitor = detail::Overloaded<std::decay_t<F>...>;
  static_assert(detail::handles_every<Visitor&>(static_cast<const Op*>(nullptr)),
                "this visitor does not handle every weir::Op: add a case for the kind that is missing");
  return std::visit(Visitor{static_cast<F&&>(cases)...}, op);
}

}  // namespace weir
