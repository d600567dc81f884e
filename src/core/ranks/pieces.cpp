// A large collective of ranks whose arrays the host does not reach, cut in pieces.
#include "core/ranks/pieces.hpp"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <iterator>
#include <string_view>
#include <utility>

#include <weir/detail/storage.hpp>

#include "core/collectives/work.hpp"
#include "core/memory/dense.hpp"

namespace weir::detail {

namespace {

/// Of one array. All ranks have the same: smaller in tests.
std::size_t most_bytes() {
  static const std::size_t most = [] {
    std::size_t bytes = std::size_t{4} << 20;
    if (const char* value = std::getenv("WEIR_STAGED_PIECE")) {
      const std::string_view text = value;
      std::from_chars(text.data(), text.data() + text.size(), bytes);
    }
    return std::clamp<std::size_t>(bytes, 64, std::size_t{1} << 30);
  }();
  return most;
}

bool reads_all(CollectiveKind kind) {
  return kind == CollectiveKind::reduce_scatter || kind == CollectiveKind::scatter ||
         kind == CollectiveKind::all_to_all;
}
bool writes_all(CollectiveKind kind) {
  return kind == CollectiveKind::all_gather || kind == CollectiveKind::gather || kind == CollectiveKind::all_to_all;
}

Elements elements_at(std::byte* data, std::size_t bytes) {
  Elements elements;
  elements.data = data;
  elements.layout.element_bytes = bytes;
  return elements;
}

}  // namespace

PieceRoom::PieceRoom(std::size_t bytes, const Offer& offer)
    : bytes_((bytes + 255) / 256 * 256),
      storage_(make_storage(operation_of(offer.request.kind), MemoryKind::pinned, {}, Shape(2 * piece_tracks * bytes_),
                            1, 256, nullptr, offer.where)),
      data_(static_cast<std::byte*>(storage_->data)) {}
PieceRoom::~PieceRoom() { release(storage_); }

Pieces::Pieces(const Offer& offer, int rank, int size)
    : offer_(offer),
      rank_(rank),
      size_(size),
      element_((offer.request.in.present() ? offer.request.in : offer.request.out).layout.element_bytes) {
  const CollectiveRequest& request = offer.request;
  if (request.kind == CollectiveKind::barrier) return;
  const auto ranks = static_cast<std::size_t>(size);
  if (reads_all(request.kind) || writes_all(request.kind)) parts_ = ranks;
  step_ = std::max<std::size_t>(most_bytes() / (std::max<std::size_t>(element_, 1) * parts_), 1);
  length_ = count_of(request);
  if (request.kind == CollectiveKind::all_to_all) {
    // Each pair has its own: what a piece has of it may be nothing.
    length_ /= ranks;
    if (!offer.send_counts.empty()) {
      length_ = std::max(*std::max_element(offer.send_counts.begin(), offer.send_counts.end()),
                         *std::max_element(offer.receive_counts.begin(), offer.receive_counts.end()));
    }
  }
  count_ = length_ / step_ + (length_ % step_ != 0 ? 1 : 0);
}

Pieces::Ranges Pieces::ranges(std::size_t number, bool of_all, const std::vector<std::size_t>& counts,
                              std::size_t all) const {
  Ranges found;
  const std::size_t parts = of_all ? static_cast<std::size_t>(size_) : 1;
  std::size_t part = 0;
  for (std::size_t r = 0; r < parts; ++r) {
    const std::size_t length = counts.empty() ? all / parts : counts[r];
    const std::size_t begin = std::min(number * step_, length);
    found.push_back({part + begin, std::min(begin + step_, length) - begin});
    part += length;
  }
  return found;
}

/// A phase of its own: into the piece, or out of it.
void Pieces::add_copies(RankPlan& plan, const CollectiveOperand& array, const Ranges& ranges, std::byte* piece, bool in,
                        const Place& place) const {
  RankPhase& phase = plan.emplace_back();
  if (!place.copy) {
    auto work = std::make_shared<CollectiveWork>();
    for (const Range& range : ranges) {
      const Elements there(array, range.first), here = elements_at(piece, element_);
      if (range.count > 0) work->move(in ? there : here, in ? here : there, range.count);
      piece += range.count * element_;
    }
    phase.then = [work] { work->run(0, work->extent()); };
    return;
  }
  std::vector<RankCopy> copies;
  for (const Range& range : ranges) {
    std::byte* const there = array.data + range.first * element_;
    const std::size_t bytes = range.count * element_;
    if (bytes > 0) copies.push_back({in ? piece : there, in ? there : piece, bytes});
    piece += bytes;
  }
  if (copies.empty()) return;
  phase.until = std::make_shared<RankMove>();
  phase.then = [copy = place.copy, copies = std::move(copies), copied = phase.until] { copy(copies, copied); };
}

/// Ranks of an all_to_all may have different numbers of pieces: the first one says what all of them have, and who has no more
/// for a rank sends it none.
void Pieces::say_the_rest(RankPlan& plan, std::size_t number) const {
  const CollectiveRequest& request = offer_.request;
  const auto ranks = static_cast<std::size_t>(size_);
  for (RankPhase& phase : plan) {
    if (number > 0) std::erase_if(phase.messages, [](const RankMessage& message) { return message.bytes == 0; });
    for (RankMessage& message : phase.messages) {
      const auto& counts = message.receives ? offer_.receive_counts : offer_.send_counts;
      const std::size_t all = (message.receives ? request.out : request.in).count();
      const std::size_t whole = counts.empty() ? all / ranks : counts[static_cast<std::size_t>(message.peer)];
      if (number == 0) message.said = whole * element_ - message.bytes;
    }
  }
}

RankPlan Pieces::plan(std::size_t number, const Place& place, bool compare, RankScratch& scratch) const {
  const CollectiveRequest& request = offer_.request;
  const bool root = request.peer == rank_;
  const bool spreads = request.kind == CollectiveKind::broadcast && root;
  const bool reads = request.in.present() && (request.kind != CollectiveKind::scatter || root);
  const bool gives = (request.kind != CollectiveKind::reduce && request.kind != CollectiveKind::gather) || root;
  const bool writes = request.out.present() && gives && !spreads;
  const Ranges from = ranges(number, reads_all(request.kind), offer_.send_counts, request.in.count());
  const Ranges to = ranges(number, writes_all(request.kind), offer_.receive_counts, request.out.count());
  const auto elements_of = [](const Ranges& all) {
    std::size_t count = 0;
    for (const Range& range : all) count += range.count;
    return count;
  };
  const auto counts_of = [](const Ranges& all) {
    std::vector<std::size_t> counts;
    for (const Range& range : all) counts.push_back(range.count);
    return counts;
  };
  Offer piece = offer_;
  const auto move_to = [&](CollectiveOperand& operand, std::byte* data, const Ranges& all) {
    if (!operand.present()) return;
    operand.data = data;
    operand.storage = nullptr;
    operand.layout = dense(Shape(elements_of(all)), element_);
  };
  move_to(piece.request.in, place.in, from);
  move_to(piece.request.out, place.out, to);
  const bool counted = !offer_.send_counts.empty();
  if (counted) piece.send_counts = counts_of(from);
  if (counted) piece.receive_counts = counts_of(to);
  RankPlan plan;
  if (reads) add_copies(plan, request.in, from, place.in, true, place);
  if (spreads) add_copies(plan, request.out, to, place.out, true, place);
  RankPlan messages = plan_of(piece, rank_, size_, false, scratch);
  if (request.kind == CollectiveKind::all_to_all) say_the_rest(messages, number);
  if (compare) {
    RankPlan compared = plan_of_comparing(offer_, rank_, size_, scratch);
    std::move(compared.begin(), compared.end(), std::back_inserter(plan));
  }
  std::move(messages.begin(), messages.end(), std::back_inserter(plan));
  if (writes) add_copies(plan, request.out, to, place.out, false, place);
  return plan;
}

}  // namespace weir::detail
