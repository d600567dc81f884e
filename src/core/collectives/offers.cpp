// What one rank's call says, and whether that makes sense by itself.
#include <algorithm>
#include <array>
#include <span>

#include "core/checks.hpp"
#include "core/collectives/communicator_state.hpp"
#include "core/memory/overlap.hpp"

namespace weir::detail {

namespace {

const char* name_of(Reduction reduction) {
  switch (reduction) {
    case Reduction::plus: return "Plus";
    case Reduction::multiplies: return "Multiplies";
    case Reduction::minimum: return "Minimum";
    case Reduction::maximum: return "Maximum";
    case Reduction::average: return "Average";
    case Reduction::none: break;
  }
  return "";
}

bool has_root(CollectiveKind kind) {
  return kind == CollectiveKind::broadcast || kind == CollectiveKind::reduce || kind == CollectiveKind::gather ||
         kind == CollectiveKind::scatter;
}

/// Of one offer, for errors: texts are made where one is thrown.
struct Site {
  const char* operation;
  const CommunicatorState& communicator;
  int rank;
  SourceLocation where;

  [[noreturn]] void refuse(Errc code, const std::string& why) const {
    throw Error(code, operation, communicator.describe(rank), why, where);
  }
};

/// The counts of an all_to_all: they are of all elements of the array. They may be anything, so they are not summed up.
void check_counts(const Site& site, std::span<const std::size_t> counts, std::size_t elements, const char* what) {
  std::size_t left = elements;
  for (std::size_t r = 0; r < counts.size(); ++r) {
    if (counts[r] > left) {
      site.refuse(Errc::wrong_shape, std::string(what) + " has " + std::to_string(elements) +
                                         " elements, and the counts up to that of rank " + std::to_string(r) + ", " +
                                         std::to_string(counts[r]) + ", are more");
    }
    left -= counts[r];
  }
  if (left == 0) return;
  site.refuse(Errc::wrong_shape, std::string(what) + " has " + std::to_string(elements) + " elements, and the counts " +
                                     std::to_string(elements - left));
}

void check_sizes(const Site& site, const CollectiveRequest& request, std::size_t ranks, bool root) {
  const auto expect = [&](std::size_t is, std::size_t should, const char* what) {
    if (is == should) return;
    site.refuse(Errc::wrong_shape, std::string(what) + " has " + std::to_string(is) + " elements, and " +
                                       std::to_string(should) + " are needed");
  };
  const auto need = [&](const CollectiveOperand& operand, const char* what) {
    if (!operand.present()) site.refuse(Errc::invalid_value, std::string("the root gives ") + what);
  };
  const std::size_t in = request.in.count();
  const std::size_t out = request.out.count();
  switch (request.kind) {
    case CollectiveKind::all_reduce: expect(out, in, "the result"); break;
    case CollectiveKind::reduce:
      if (!root) break;
      need(request.out, "where the result goes: out(y), or inout(x)");
      expect(out, in, "the result");
      break;
    case CollectiveKind::all_gather: expect(out, in * ranks, "the result"); break;
    case CollectiveKind::reduce_scatter: expect(in, out * ranks, "the array that is reduced"); break;
    case CollectiveKind::gather:
      if (!root) break;
      need(request.out, "where all parts go: out(y)");
      expect(out, in * ranks, "the result");
      break;
    case CollectiveKind::scatter:
      if (!root) break;
      need(request.in, "what is scattered: in(x)");
      expect(in, out * ranks, "the array that is scattered");
      break;
    case CollectiveKind::all_to_all:
      if (request.send_counts.data() == nullptr && request.receive_counts.data() == nullptr) {
        if (in % ranks != 0) {
          site.refuse(Errc::wrong_shape,
                      std::to_string(in) + " elements are not equal parts for " + std::to_string(ranks) + " ranks");
        }
        expect(out, in, "the result");
        break;
      }
      expect(request.send_counts.size(), ranks, "the list of send counts");
      expect(request.receive_counts.size(), ranks, "the list of receive counts");
      check_counts(site, request.send_counts, in, "the array that is sent");
      check_counts(site, request.receive_counts, out, "the result");
      break;
    default: break;
  }
}

/// Dimensions that say where elements are: without those of one element, and those that go on where the next one ends.
struct Steps {
  std::array<std::size_t, max_rank> extent{};
  std::array<std::ptrdiff_t, max_rank> stride{};
  std::size_t count = 0;

  explicit Steps(const Layout& layout) {
    for (std::size_t d = 0; d < layout.shape.rank(); ++d) {
      const std::size_t one = layout.shape[d];
      if (one == 1) continue;
      if (count > 0 && stride[count - 1] == static_cast<std::ptrdiff_t>(one) * layout.stride[d]) {
        extent[count - 1] *= one;
        stride[count - 1] = layout.stride[d];
        continue;
      }
      extent[count] = one;
      stride[count++] = layout.stride[d];
    }
  }
  friend bool operator==(const Steps&, const Steps&) = default;
};

/// Whether element i of one is element i of the other: a transposed matrix has the same bytes in another order.
bool same_elements(const CollectiveOperand& a, const CollectiveOperand& b) {
  return a.data == b.data && a.layout.element_bytes == b.layout.element_bytes && Steps(a.layout) == Steps(b.layout);
}

/// Where an input and an output may be the same memory: elements of the longer side from where on. None: nowhere.
bool is_in_place(const CollectiveRequest& request, int rank) {
  const CollectiveOperand& in = request.in;
  const CollectiveOperand& out = request.out;
  const auto part = [&](const CollectiveOperand& whole, std::size_t count) {
    return whole.data + static_cast<std::size_t>(rank) * count * whole.layout.element_bytes;
  };
  switch (request.kind) {
    case CollectiveKind::all_reduce:
    case CollectiveKind::reduce: return same_elements(in, out);
    case CollectiveKind::all_gather:
    case CollectiveKind::gather:
      return Elements(in, 0).dense && Elements(out, 0).dense && in.data == part(out, in.count());
    case CollectiveKind::reduce_scatter:
    case CollectiveKind::scatter:
      return Elements(in, 0).dense && Elements(out, 0).dense && out.data == part(in, out.count());
    default: return false;
  }
}

}  // namespace

std::size_t count_of(const CollectiveRequest& request) {
  switch (request.kind) {
    case CollectiveKind::broadcast:
    case CollectiveKind::reduce_scatter:
    case CollectiveKind::scatter:
    case CollectiveKind::receive: return request.out.count();
    default: return request.in.count();
  }
}

const char* operation_of(CollectiveKind kind) {
  switch (kind) {
    case CollectiveKind::all_reduce: return "weir::all_reduce";
    case CollectiveKind::broadcast: return "weir::broadcast";
    case CollectiveKind::reduce: return "weir::reduce";
    case CollectiveKind::all_gather: return "weir::all_gather";
    case CollectiveKind::reduce_scatter: return "weir::reduce_scatter";
    case CollectiveKind::gather: return "weir::gather";
    case CollectiveKind::scatter: return "weir::scatter";
    case CollectiveKind::all_to_all: return "weir::all_to_all";
    case CollectiveKind::barrier: return "weir::barrier";
    case CollectiveKind::send: return "weir::send";
    case CollectiveKind::receive: return "weir::receive";
  }
  return "weir::collective";
}

Offer::Offer(const CollectiveRequest& said, StreamRef on, SourceLocation line)
    : request(said),
      send_counts(said.send_counts.begin(), said.send_counts.end()),
      receive_counts(said.receive_counts.begin(), said.receive_counts.end()),
      stream(on),
      where(line) {
  request.send_counts = request.receive_counts = {};
}

Called::Called(const Offer& offer)
    : kind(offer.request.kind),
      reduction(offer.request.reduction),
      peer(offer.request.peer),
      count(count_of(offer.request)),
      type(offer.request.in.present() ? offer.request.in.type : offer.request.out.type),
      where(offer.where) {}

std::string text_of(const Called& called) {
  std::string text = name_of(called.kind);
  if (called.kind != CollectiveKind::barrier) {
    text += " of " + std::to_string(called.count) + " x " + std::string(called.type);
    if (called.reduction != Reduction::none) text += std::string(", ") + name_of(called.reduction);
    if (called.kind == CollectiveKind::send) text += ", to " + std::to_string(called.peer);
    if (called.kind == CollectiveKind::receive) text += ", from " + std::to_string(called.peer);
    if (has_root(called.kind)) text += ", root " + std::to_string(called.peer);
  }
  const SourceLocation& where = called.where;
  if (where) text += " [" + std::string(where.file_name()) + ":" + std::to_string(where.line()) + "]";
  return text;
}

std::size_t check_offer(const CommunicatorState& communicator, int rank, const Offer& offer, bool grouped,
                        Region regions[2]) {
  CollectiveRequest request = offer.request;
  if (!offer.send_counts.empty()) request.send_counts = offer.send_counts;
  if (!offer.receive_counts.empty()) request.receive_counts = offer.receive_counts;
  const Site site{operation_of(request.kind), communicator, rank, offer.where};
  const int ranks = static_cast<int>(communicator.size());
  const bool pair = is_pair(request.kind);
  if ((pair || has_root(request.kind)) && (request.peer < 0 || request.peer >= ranks)) {
    site.refuse(Errc::invalid_value, "there is no rank " + std::to_string(request.peer));
  }
  if (pair && request.peer == rank && !grouped) {
    site.refuse(Errc::invalid_value, "a rank sends to itself in a weir::CollectiveGroup alone, with its receive");
  }
  const bool half = request.in.kind == ElementKind::f16 || request.in.kind == ElementKind::bf16;
  if (half && request.reduction != Reduction::none && !communicator.transport->traits().halves) {
    site.refuse(Errc::not_supported, std::string(request.in.type) + " is reduced on GPUs alone");
  }
  const bool root = request.peer == rank;
  check_sizes(site, request, communicator.size(), root);
  const bool reads = request.in.present() && (request.kind != CollectiveKind::scatter || root);
  const bool writes = request.out.present() &&
                      (root || (request.kind != CollectiveKind::reduce && request.kind != CollectiveKind::gather));
  const bool same = reads && writes && is_in_place(request, rank);
  // share_memory() does not decide on two arrays with gaps and different strides; their first elements are plain to see.
  const auto overlap = [&] {
    return (request.in.data == request.out.data && request.in.count() > 0 && request.out.count() > 0) ||
           share_memory(request.in.data, request.in.layout, request.out.data, request.out.layout);
  };
  if (reads && writes && !same && overlap()) {
    site.refuse(Errc::overlapping, "what is read and what is written share memory, but not as in place");
  }
  std::size_t count = 0;
  const auto take = [&](const CollectiveOperand& operand, Access access) {
    checked_bytes(operand.layout.shape, operand.layout.element_bytes, site.operation, site.where);
    if (operand.storage != nullptr) {
      use(*operand.storage, offer.stream, true, site.operation, site.where);
    } else {
      check_raw(operand.data, operand.count(), operand.alignment, offer.stream, site.operation, site.where);
    }
    regions[count] = operand.region;
    regions[count++].access = access;
  };
  const bool one = same && request.in.count() == request.out.count();
  if (reads && !one) take(request.in, Access::read);
  if (request.kind == CollectiveKind::broadcast && root) {
    take(request.out, Access::read);
  } else if (writes) {
    if (request.out.region.access == Access::read) {
      site.refuse(Errc::invalid_value, "what is written is given as out(x) or inout(x)");
    }
    take(request.out, one ? Access::read_write : Access::write);
  }
  return count;
}

}  // namespace weir::detail
