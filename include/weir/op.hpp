// The one list of commands. A stream turns calls into commands; backends run them, observers watch them, graphs keep them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>
#include <variant>

#include <weir/detail/durations.hpp>
#include <weir/shape.hpp>
#include <weir/source_location.hpp>

namespace weir {

using CommandId = std::uint64_t;  ///< unique in the process while anything observes; 0 otherwise
using StreamId = std::uint64_t;   ///< unique in the process; never reused (R15)
using BufferId = std::uint64_t;   ///< one allocation; 0 for memory that Weir did not allocate

enum class MemoryKind : std::uint8_t { pageable, pinned, device };
/// How a command accesses memory. accumulate: atomic updates, which may run in any order among themselves; everything but the
/// hazard checker treats them as read_write.
enum class Access : std::uint8_t { read = 1, write = 2, read_write = 3, accumulate = 7 };

/// The exact bytes that a command accesses: `rows` rows of `row_bytes` bytes, `pitch` bytes apart; all of that `outer[0].count`
/// times, `outer[0].stride` bytes apart, and so on. `begin` is the lowest address, and strides grow from row to outer.
struct Region {
  struct Repeat {
    std::size_t count;
    std::size_t stride;
    friend constexpr bool operator==(const Repeat&, const Repeat&) = default;
  };

  const void* begin = nullptr;
  std::size_t row_bytes = 0;
  std::size_t rows = 1;
  std::size_t pitch = 0;
  BufferId buffer = 0;
  Access access = Access::read;
  std::uint8_t outer_count = 0;  ///< number of valid entries of `outer`
  Repeat outer[max_rank - 1];

  constexpr Region() {}
  constexpr Region(const void* data, std::size_t bytes, std::size_t row_count, std::size_t row_pitch, BufferId of,
                   Access how)
      : begin(data), row_bytes(bytes), rows(row_count), pitch(row_pitch), buffer(of), access(how) {}

  /// Bytes from the first one to the end of the last one; 0 if the region is empty.
  constexpr std::size_t extent_bytes() const {
    if (rows == 0) return 0;
    std::size_t bytes = (rows - 1) * pitch + row_bytes;
    for (std::size_t d = 0; d < outer_count; ++d) bytes += (outer[d].count - 1) * outer[d].stride;
    return bytes;
  }
  /// Whether both are the same bytes with the same access.
  friend constexpr bool operator==(const Region& a, const Region& b) {
    if (a.begin != b.begin || a.row_bytes != b.row_bytes || a.rows != b.rows || a.pitch != b.pitch ||
        a.buffer != b.buffer || a.access != b.access || a.outer_count != b.outer_count) {
      return false;
    }
    for (std::size_t d = 0; d < a.outer_count; ++d) {
      if (!(a.outer[d] == b.outer[d])) return false;
    }
    return true;
  }
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
struct CollectivePart;
}  // namespace detail

/// Runs a kernel over `extent` elements, or over `extent` blocks of `threads` threads with `shared_bytes` of memory each.
struct Launch {
  const Kernel* kernel;
  const void* closure;  ///< the functor and its arguments; copied before submit returns
  Shape extent;
  std::uint32_t block = 0;    ///< threads per block; 0: the backend chooses
  std::uint32_t threads = 0;  ///< cooperative kernels only: of each block
  std::size_t shared_bytes = 0;
  const char* name = nullptr;  ///< the user's name for it, else null
  Shape thread_shape{};        ///< cooperative kernels only: of a block's threads
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

/// A stream-ordered allocation, and the free that ends it: between the two, in the stream's order, the memory is valid.
struct Alloc {
  void* data;
  std::size_t bytes;
  BufferId buffer;
  detail::PoolState* pool;  ///< null for host memory
  bool pinned = false;      ///< host memory that is pinned
  bool raw = false;         ///< by Pool::allocate: its free does not wait for other streams that use it
};
struct Free {
  void* data;
  std::size_t bytes;
  BufferId buffer;
  detail::PoolState* pool;
};

/// Records an event: it is reached when all earlier work of the stream is done (C9).
struct Record {
  detail::EventState* event;
  std::uint64_t event_id;
  std::uint64_t number = 0;  ///< counts the event's records from 1, while commands are observed
};
/// Later commands of the stream wait until the event's latest record before this call is reached (R70, R72).
struct Wait {
  detail::EventState* event;
  std::uint64_t event_id;
  std::uint64_t record = 0;  ///< that record's number; 0: there is none, and the wait does nothing
};

/// Runs a host function in stream order. The queue owns `function` once submit returned.
struct HostCall {
  detail::HostFunction* function;
};

/// Work that another library enqueues, with the memory that it is declared to access. Owned like a host function.
struct External {
  detail::HostFunction* function;
};

/// Replays a graph.
struct GraphLaunch {
  detail::GraphState* graph;
  std::uint64_t id = 0;  ///< unique in the process; also of its capture, its nodes and Node::graph()
};

/// One rank's part in a collective. Later commands of its stream wait until the collective is done for this rank; the collective
/// waits for the earlier work of every rank's stream.
struct Collective {
  detail::CollectivePart* part;
  const char* call;  ///< "all_reduce"
  /// Unique in the process; of several processes, the same in all of them.
  std::uint64_t communicator = 0;
  std::uint64_t number = 0;  ///< counts the communicator's from 1, the same on all ranks; 0: send, receive
  int rank = 0;
  int size = 0;                        ///< how many ranks the communicator has
  int peer = -1;                       ///< the root, or the other rank of a send or receive; -1: none is special
  std::size_t bytes = 0;               ///< of the larger of this rank's input and output
  const char* communicator_name = "";  ///< as it was given
  std::uint64_t unit = 0;              ///< the same for all calls of one CollectiveGroup; 0: it is in none
  bool across_processes = false;       ///< no other rank's part is told in this process
};

using Op = std::variant<Launch, Copy, Fill, Alloc, Free, Record, Wait, HostCall, External, GraphLaunch, Collective>;

/// An op in its stream. Pointers and spans inside are valid for the duration of the call that hands the command over;
/// whoever keeps a command copies what it needs.
struct Command {
  CommandId id = 0;
  StreamId stream = 0;
  SourceLocation where;
  std::span<const Region> uses;
  Op op;
  std::uint32_t thread = 0;  ///< the calling host thread; threads are numbered from 1 in the order of their first calls
  std::uint32_t node = 0;    ///< its index in `graph`
  std::uint64_t graph = 0;   ///< the capture, and later graph, that records it; 0: it is executed
  /// Streams whose earlier commands this one is implicitly ordered after: by the rules of default streams (C8) and, for a free,
  /// every stream that was given the memory.
  std::span<const StreamId> behind = {};
  mutable std::chrono::steady_clock::time_point asked_at = {};  ///< of called(); the epoch before

  /// When the call was made, right before the command enters its stream. Nobody reads the clock before the first observer asks, on
  /// the thread of the call; later ones, and the backend that takes the command's time, have the same answer.
  std::chrono::steady_clock::time_point called() const {
    if (asked_at == std::chrono::steady_clock::time_point()) asked_at = std::chrono::steady_clock::now();
    return asked_at;
  }
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

/// Visits an op with one callable per kind of op. A missing callable is an error at compile time, with a sentence that says so.
template <class... F>
decltype(auto) visit_op(const Op& op, F&&... cases) {
  using Visitor = detail::Overloaded<std::decay_t<F>...>;
  static_assert(detail::handles_every<Visitor&>(static_cast<const Op*>(nullptr)),
                "this visitor does not handle every weir::Op: add a case for the kind that is missing");
  return std::visit(Visitor{static_cast<F&&>(cases)...}, op);
}

}  // namespace weir
