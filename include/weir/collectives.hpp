// Collectives: all_reduce and its kin as stream commands. docs/collectives.md has the rules of order and failure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include <weir/algorithm.hpp>
#include <weir/detail/arguments.hpp>
#include <weir/detail/durations.hpp>
#include <weir/stream.hpp>

namespace weir {

/// The sum over the ranks, divided by their number; of integers as integers divide.
struct Average {};

struct CommunicatorOptions {
  std::string name = {};                                       ///< for messages and tools; one is made up if empty
  std::chrono::nanoseconds timeout = std::chrono::minutes(5);  ///< how long a rank that is ready waits for the others
};

class Communicator;

namespace detail {
struct CollectiveRequest;
struct Member;
void submit_collective(StreamRef stream, const Communicator& communicator, const CollectiveRequest& request,
                       SourceLocation where);
}  // namespace detail

/// One rank of a group of ranks, each a device. Its collectives run in the order of its calls, whatever their streams; all
/// ranks make the same calls in the same order. Destroying it ends the rank: collectives that all ranks have called by then
/// complete, and those that this rank has not called fail for the others (rank_failed). Thread rule: any thread; a program that
/// calls from several threads orders the calls itself.
class Communicator {
 public:
  Communicator() noexcept;
  Communicator(Communicator&& other) noexcept;
  Communicator& operator=(Communicator&& other) noexcept;
  ~Communicator();

  /// 0 to size() - 1. Of what split() gave, these two wait until all ranks have called it.
  int rank(SourceLocation where = SourceLocation::current()) const;
  int size(SourceLocation where = SourceLocation::current()) const;
  Device device(SourceLocation where = SourceLocation::current()) const;
  const std::string& name(SourceLocation where = SourceLocation::current()) const;
  /// What carries its data: "shared memory" among CPU devices of one process, "NCCL" among its GPUs, "sockets" or "MPI (...)"
  /// between processes.
  std::string_view transport(SourceLocation where = SourceLocation::current()) const;
  std::chrono::nanoseconds timeout(SourceLocation where = SourceLocation::current()) const;

  /// The ranks that gave the same `color`, ordered by `key` and then by their rank here. Every rank calls it, in the order of
  /// its other calls. Returns at once; the first use of the result waits for ranks that have yet to call, so one thread that
  /// serves several ranks calls it for all of them first. Throws collective_timeout from that wait.
  Communicator split(int color, int key, SourceLocation where = SourceLocation::current()) const;
  /// Pending collectives fail on all ranks (rank_failed, naming this line), and later calls throw. Never waits.
  void abort(SourceLocation where = SourceLocation::current()) const;
  /// After a failure: a communicator of the ranks that have not failed. Each of them calls it. Throws not_ready while nothing has
  /// failed, rank_failed for a rank that did, not_supported where ranks send by MPI, or rank 0's process is gone. Never waits;
  /// where ranks are processes, the first use of the result waits for them all, and may throw rank_failed, collective_timeout.
  Communicator without_failed(SourceLocation where = SourceLocation::current()) const;

  /// For the library.
  explicit Communicator(std::unique_ptr<detail::Member> member);
  /// Throws invalid_handle for one that was moved from, and waits for those that have yet to split().
  detail::Member& member(const char* operation, SourceLocation where) const;

 private:
  std::unique_ptr<detail::Member> member_;
};

/// A communicator whose ranks are all in this process: rank i is devices[i]; the same CPU device may serve several. Of GPUs
/// it takes about a second, and needs NCCL (libnccl.so.2). Throws invalid_value for no devices, not_supported for devices that
/// no transport of this build connects, naming what to install.
std::vector<Communicator> communicators(const std::vector<Device>& devices, const CommunicatorOptions& options = {},
                                        SourceLocation where = SourceLocation::current());
/// One rank a process: the only rank, where no launcher says otherwise; under `weir ranks` and torchrun this process's rank of the
/// job, of as many communicators as the ranks make in the same order. Waits until all ranks have called it: collective_timeout
/// after options.timeout. Several ranks may have one device. Throws not_supported under mpirun and srun, where
/// weir::mpi::communicator makes ranks, and for simulated devices of several processes.
Communicator communicator(Device device, const CommunicatorOptions& options = {},
                          SourceLocation where = SourceLocation::current());

/// The collectives that this thread calls while it lives are one unit: none waits for another, so that exchanges by send and
/// receive need no order. They enter their streams when it ends. If one is refused, its call throws, and the group is void.
class CollectiveGroup {
 public:
  explicit CollectiveGroup(SourceLocation where = SourceLocation::current());
  /// Ends it, unless end() did. An exception of end() is dropped here; after an exception inside the group nothing is called.
  ~CollectiveGroup();
  CollectiveGroup(const CollectiveGroup&) = delete;
  CollectiveGroup& operator=(const CollectiveGroup&) = delete;
  /// Makes the calls, and throws what they throw.
  void end();

 private:
  bool open_ = true;
  int exceptions_ = 0;
};

namespace detail {

enum class CollectiveKind : std::uint8_t {
  all_reduce,
  broadcast,
  reduce,
  all_gather,
  reduce_scatter,
  gather,
  scatter,
  all_to_all,
  barrier,
  send,
  receive
};
enum class Reduction : std::uint8_t { none, plus, multiplies, minimum, maximum, average };
enum class ElementKind : std::uint8_t { other, i8, u8, i16, u16, i32, u32, i64, u64, f32, f64, f16, bf16 };

/// One array of a collective's call.
struct CollectiveOperand {
  std::byte* data = nullptr;
  Layout layout = {};
  Region region = {};
  Storage* storage = nullptr;
  std::string_view type = {};  ///< of its elements; empty: there is no such operand
  ElementKind kind = ElementKind::other;
  std::size_t alignment = 1;

  bool present() const { return !type.empty(); }
  std::size_t count() const { return present() ? layout.shape.count() : 0; }
};

/// What a call says.
struct CollectiveRequest {
  CollectiveKind kind;
  CollectiveOperand in = {};
  CollectiveOperand out = {};
  Reduction reduction = Reduction::none;
  int peer = -1;
  std::span<const std::size_t> send_counts = {};
  std::span<const std::size_t> receive_counts = {};
};

template <class T>
constexpr ElementKind element_kind() {
  if constexpr (std::is_same_v<T, float>) {
    return ElementKind::f32;
  } else if constexpr (std::is_same_v<T, double>) {
    return ElementKind::f64;
  } else if constexpr (std::is_integral_v<T> && !std::is_same_v<T, bool> && sizeof(T) <= 8) {
    constexpr int size = sizeof(T) == 1 ? 0 : sizeof(T) == 2 ? 2 : sizeof(T) == 4 ? 4 : 6;
    return static_cast<ElementKind>(static_cast<int>(ElementKind::i8) + size + (std::is_unsigned_v<T> ? 1 : 0));
  } else if constexpr (sizeof(T) == 2 &&
                       type_name<T>() == "__half") {  // CUDA's types, whose headers are not needed for it
    return ElementKind::f16;
  } else if constexpr (sizeof(T) == 2 && type_name<T>() == "__nv_bfloat16") {
    return ElementKind::bf16;
  } else {
    return ElementKind::other;
  }
}

template <class Op>
constexpr Reduction reduction_of(const Op&) {
  constexpr Reduction reduction = std::is_same_v<Op, Plus>         ? Reduction::plus
                                  : std::is_same_v<Op, Multiplies> ? Reduction::multiplies
                                  : std::is_same_v<Op, Minimum>    ? Reduction::minimum
                                  : std::is_same_v<Op, Maximum>    ? Reduction::maximum
                                  : std::is_same_v<Op, Average>    ? Reduction::average
                                                                   : Reduction::none;
  static_assert(reduction != Reduction::none,
                "collectives reduce by weir::Plus, Multiplies, Minimum, Maximum or Average");
  return reduction;
}

template <class T>
CollectiveOperand operand(const Argument<T>& argument) {
  using Element = std::remove_const_t<T>;
  static_assert(std::is_trivially_copyable_v<Element>, "collectives move elements as bytes");
  CollectiveOperand made;
  made.data = reinterpret_cast<std::byte*>(const_cast<Element*>(argument.view.data()));
  made.layout.shape = argument.view.shape();
  made.layout.element_bytes = sizeof(T);
  for (std::size_t d = 0; d < max_rank; ++d) {
    made.layout.stride[d] = argument.view.stride(d) * static_cast<std::ptrdiff_t>(sizeof(T));
  }
  describe_region(made.region, argument);
  made.storage = argument.storage;
  made.type = type_name<Element>();
  made.kind = element_kind<Element>();
  made.alignment = alignof(T);
  return made;
}
template <class T>
CollectiveOperand reduced(const Argument<T>& argument) {
  static_assert(element_kind<std::remove_const_t<T>>() != ElementKind::other,
                "collectives reduce integers, float and double, and on GPUs __half and __nv_bfloat16");
  return operand(argument);
}
/// Nothing where it cannot be written. (As a conditional expression in the call this made nvcc 13.0 crash.)
template <class T>
CollectiveOperand reduced_in_place(const Argument<T>& x) {
  if constexpr (std::is_const_v<T>) {
    return {};
  } else {
    return reduced(x);
  }
}
inline void submit_collective(StreamArg stream, const Communicator& communicator, const CollectiveRequest& request) {
  submit_collective(stream.stream, communicator, request, stream.where);
}

}  // namespace detail

// The calls. Asynchronous; each follows everything before it in its stream and holds everything after it. The stream is of the
// rank's device. Arrays are given as in(x), out(y) or inout(x), of any shape and strides; their elements count in row-major order.
// They throw wrong_shape for sizes that do not fit, wrong_device, invalid_value for a root or peer that is no rank, overlapping
// for arrays that share some of their memory, collective_mismatch if this rank calls other than the others did, and the
// communicator's failure if it has one. What goes wrong later fails the streams, as a kernel does.
// GPUs: elements are folded in an order of NCCL's own, the same on all ranks, but for small all_reduces.
// In a capture a call becomes a node: one of all ranks that are in this process, or one of each process in its own graph, whose
// launches make the call again.

/// y = x of rank 0 op ... op x of the last rank, everywhere: folded in the order of ranks, so equal on all and each time.
template <class T, class Op = Plus>
void all_reduce(StreamArg stream, const Communicator& communicator, const Argument<const T>& x, const Argument<T>& y,
                Op op = {}) {
  detail::submit_collective(stream, communicator,
                            {.kind = detail::CollectiveKind::all_reduce,
                             .in = detail::reduced(x),
                             .out = detail::reduced(y),
                             .reduction = detail::reduction_of(op)});
}
/// In place: inout(x).
template <class T, class Op = Plus>
  requires(!std::is_const_v<T> && !detail::is_argument<Op>)
void all_reduce(StreamArg stream, const Communicator& communicator, const Argument<T>& x, Op op = {}) {
  detail::submit_collective(stream, communicator,
                            {.kind = detail::CollectiveKind::all_reduce,
                             .in = detail::reduced(x),
                             .out = detail::reduced(x),
                             .reduction = detail::reduction_of(op)});
}

/// The root's x everywhere: inout(x); the root may give in(x), the others out(x).
template <class T>
void broadcast(StreamArg stream, const Communicator& communicator, const Argument<T>& x, int root = 0) {
  detail::submit_collective(stream, communicator,
                            {.kind = detail::CollectiveKind::broadcast, .out = detail::operand(x), .peer = root});
}

/// As all_reduce, on the root alone; y of the others is not touched.
template <class T, class Op>
void reduce(StreamArg stream, const Communicator& communicator, const Argument<const T>& x, const Argument<T>& y, Op op,
            int root = 0) {
  detail::submit_collective(stream, communicator,
                            {.kind = detail::CollectiveKind::reduce,
                             .in = detail::reduced(x),
                             .out = detail::reduced(y),
                             .reduction = detail::reduction_of(op),
                             .peer = root});
}
/// In place on the root, inout(x); the others may give in(x).
template <class T, class Op>
  requires(!detail::is_argument<Op>)
void reduce(StreamArg stream, const Communicator& communicator, const Argument<T>& x, Op op, int root = 0) {
  detail::submit_collective(stream, communicator,
                            {.kind = detail::CollectiveKind::reduce,
                             .in = detail::reduced(x),
                             .out = detail::reduced_in_place(x),
                             .reduction = detail::reduction_of(op),
                             .peer = root});
}

/// y is the x of all ranks, in the order of ranks: size() times as long. x may be this rank's part of y.
template <class T>
void all_gather(StreamArg stream, const Communicator& communicator, const Argument<const T>& x, const Argument<T>& y) {
  detail::submit_collective(
      stream, communicator,
      {.kind = detail::CollectiveKind::all_gather, .in = detail::operand(x), .out = detail::operand(y)});
}

/// y is this rank's part of what all_reduce would give: x is size() times as long. y may be this rank's part of x.
template <class T, class Op = Plus>
void reduce_scatter(StreamArg stream, const Communicator& communicator, const Argument<const T>& x,
                    const Argument<T>& y, Op op = {}) {
  detail::submit_collective(stream, communicator,
                            {.kind = detail::CollectiveKind::reduce_scatter,
                             .in = detail::reduced(x),
                             .out = detail::reduced(y),
                             .reduction = detail::reduction_of(op)});
}

/// As all_gather, on the root alone; y of the others is not touched, and need not be given.
template <class T>
void gather(StreamArg stream, const Communicator& communicator, const Argument<const T>& x, const Argument<T>& y,
            int root = 0) {
  detail::submit_collective(
      stream, communicator,
      {.kind = detail::CollectiveKind::gather, .in = detail::operand(x), .out = detail::operand(y), .peer = root});
}
template <class T>
void gather(StreamArg stream, const Communicator& communicator, const Argument<const T>& x, int root = 0) {
  detail::submit_collective(stream, communicator,
                            {.kind = detail::CollectiveKind::gather, .in = detail::operand(x), .peer = root});
}

/// y is this rank's part of the root's x, which is size() times as long; x of the others is not read, and need not be given.
template <class T>
void scatter(StreamArg stream, const Communicator& communicator, const Argument<const T>& x, const Argument<T>& y,
             int root = 0) {
  detail::submit_collective(
      stream, communicator,
      {.kind = detail::CollectiveKind::scatter, .in = detail::operand(x), .out = detail::operand(y), .peer = root});
}
template <class T>
  requires(!std::is_const_v<T>)
void scatter(StreamArg stream, const Communicator& communicator, const Argument<T>& y, int root = 0) {
  detail::submit_collective(stream, communicator,
                            {.kind = detail::CollectiveKind::scatter, .out = detail::operand(y), .peer = root});
}

/// Part r of x goes to rank r, where it is this rank's part of y. Parts are equal.
template <class T>
void all_to_all(StreamArg stream, const Communicator& communicator, const Argument<const T>& x, const Argument<T>& y) {
  detail::submit_collective(
      stream, communicator,
      {.kind = detail::CollectiveKind::all_to_all, .in = detail::operand(x), .out = detail::operand(y)});
}
/// With the length of each part, in elements: send_counts[r] go to rank r, receive_counts[r] come from it. Read at the call.
template <class T>
void all_to_all(StreamArg stream, const Communicator& communicator, const Argument<const T>& x,
                std::span<const std::size_t> send_counts, const Argument<T>& y,
                std::span<const std::size_t> receive_counts) {
  detail::submit_collective(stream, communicator,
                            {.kind = detail::CollectiveKind::all_to_all,
                             .in = detail::operand(x),
                             .out = detail::operand(y),
                             .send_counts = send_counts,
                             .receive_counts = receive_counts});
}

/// Moves no data: work behind it on any rank runs after the work before it on all ranks.
inline void barrier(StreamArg stream, const Communicator& communicator) {
  detail::submit_collective(stream, communicator, {.kind = detail::CollectiveKind::barrier});
}

/// Sends and receives match in order, for each pair of ranks and direction, apart from the collectives. The stream goes on when
/// the data has moved: ranks that send to each other do so in a CollectiveGroup.
template <class T>
void send(StreamArg stream, const Communicator& communicator, const Argument<const T>& x, int to) {
  detail::submit_collective(stream, communicator,
                            {.kind = detail::CollectiveKind::send, .in = detail::operand(x), .peer = to});
}
template <class T>
void receive(StreamArg stream, const Communicator& communicator, const Argument<T>& y, int from) {
  static_assert(!std::is_const_v<T>, "weir::receive writes: give it out(y)");
  detail::submit_collective(stream, communicator,
                            {.kind = detail::CollectiveKind::receive, .out = detail::operand(y), .peer = from});
}

}  // namespace weir
