// A collective among processes, as one rank has it.
#include "core/ranks/plan.hpp"

#include <algorithm>
#include <numeric>
#include <string_view>

#include "core/collectives/work.hpp"
#include "hash.hpp"

namespace weir::detail {

namespace {

constexpr std::size_t small_bytes = 2048;          ///< all ranks send all of it to all
constexpr std::size_t gathered_bytes = 32 * 1024;  ///< one rank folds it
constexpr std::size_t kept_scratch = 256 << 20;

class Planner {
 public:
  Planner(const Offer& offer, int rank, int size, RankScratch& scratch, RankCopier copier = {})
      : offer_(offer),
        in_(offer.request.in),
        out_(offer.request.out),
        rank_(static_cast<std::size_t>(rank)),
        size_(static_cast<std::size_t>(size)),
        root_(static_cast<std::size_t>(std::max(offer.request.peer, 0))),
        element_((in_.present() ? in_ : out_).layout.element_bytes),
        scratch_(scratch),
        copier_(std::move(copier)) {}

  RankPlan make(bool compare) {
    if (compare) compare_calls();
    switch (offer_.request.kind) {
      case CollectiveKind::all_reduce: all_reduce(); break;
      case CollectiveKind::reduce: reduce(); break;
      case CollectiveKind::reduce_scatter: reduce_scatter(); break;
      case CollectiveKind::broadcast: broadcast(); break;
      case CollectiveKind::all_gather: gather(true); break;
      case CollectiveKind::gather: gather(false); break;
      case CollectiveKind::scatter: scatter(); break;
      case CollectiveKind::all_to_all: all_to_all(); break;
      case CollectiveKind::barrier: barrier(); break;
      case CollectiveKind::send: send(phase(), root_, packed(in_, 0, in_.count()), in_.count()); break;
      case CollectiveKind::receive: {
        RankPhase& last = phase();
        receive(last, root_, landing(last, 0, out_.count()), out_.count());
        break;
      }
    }
    return std::move(plan_);
  }

  RankPlan make_comparing() {
    compare_calls();
    return std::move(plan_);
  }

  RankPlan make_move(std::function<void()> move, std::shared_ptr<RankMove> until) {
    // Counts of an all_to_all are each pair's own.
    offer_.request.kind == CollectiveKind::all_to_all ? compare_parts() : barrier();
    RankPhase& last = plan_.empty() ? phase() : plan_.back();
    last.then = std::move(move);
    last.until = std::move(until);
    return std::move(plan_);
  }

 private:
  RankPhase& phase() { return plan_.emplace_back(); }
  void send(RankPhase& to, std::size_t peer, const std::byte* data, std::size_t count) {
    to.messages.push_back({static_cast<int>(peer), const_cast<std::byte*>(data), count * element_, false});
  }
  void receive(RankPhase& to, std::size_t peer, std::byte* data, std::size_t count) {
    to.messages.push_back({static_cast<int>(peer), data, count * element_, true});
  }
  template <class F>
  void for_each_other(F&& f) const {
    // Each begins with the next rank, so that not all begin with the same one.
    for (std::size_t i = 1; i < size_; ++i) f((rank_ + i) % size_);
  }
  std::byte* room(std::size_t count) { return scratch_.take(count * element_); }
  static void do_then(RankPhase& phase, std::function<void()> what) {
    if (phase.then) {
      phase.then = [first = std::move(phase.then), second = std::move(what)] {
        first();
        second();
      };
    } else {
      phase.then = std::move(what);
    }
  }

  /// Elements side by side: where they are, or a copy.
  const std::byte* packed(const CollectiveOperand& operand, std::size_t first, std::size_t count) {
    const Elements elements(operand, first);
    if (count == 0) return operand.data;
    if (elements.dense) return elements.read(0, count, nullptr);
    std::byte* const to = room(count);
    copy(elements, raw(to), count);
    return to;
  }
  /// Where elements of the result may arrive side by side: they are brought to their places once the phase is over.
  std::byte* landing(RankPhase& phase, std::size_t first, std::size_t count) {
    const Elements elements(out_, first);
    if (elements.dense || count == 0) return out_.data + first * element_;
    std::byte* const at = room(count);
    do_then(phase, [this_work = work_of_move(raw(at), elements, count)] { this_work->run(0, this_work->extent()); });
    return at;
  }
  Elements raw(std::byte* data) const {
    Elements elements;
    elements.data = data;
    elements.layout.element_bytes = element_;
    return elements;
  }
  static std::shared_ptr<CollectiveWork> work_of_move(const Elements& from, const Elements& to, std::size_t count) {
    auto work = std::make_shared<CollectiveWork>();
    work->move(from, to, count);
    return work;
  }
  static void copy(const Elements& from, const Elements& to, std::size_t count) {
    CollectiveWork work;
    work.move(from, to, count);
    work.run(0, work.extent());
  }
  void copy_then(RankPhase& phase, const Elements& from, const Elements& to, std::size_t count) {
    if (copier_) {
      const RankCopy own{to.data + to.first * element_, from.data + from.first * element_, count * element_};
      if (own.to == own.from || own.bytes == 0) return;
      phase.until = std::make_shared<RankMove>();
      phase.then = [copier = copier_, own, copied = phase.until] { copier(own, copied); };
      return;
    }
    do_then(phase, [work = work_of_move(from, to, count)] { work->run(0, work->extent()); });
  }
  /// to = the fold of what `parts` have, in the order of ranks.
  void fold_then(RankPhase& phase, std::vector<Elements> parts, const Elements& to, std::size_t count) {
    if (count == 0) return;
    auto work = std::make_shared<CollectiveWork>();
    work->fold(offer_.request.reduction, in_.kind, std::move(parts), {to}, count, false);
    do_then(phase, [work] { work->run(0, work->extent()); });
  }
  /// Phase in which each rank gets the part [begin(rank), begin(rank + 1)) of all inputs, and folds it.
  template <class Begin>
  RankPhase& fold_parts(Begin&& begin, const Elements& to) {
    RankPhase& first = phase();
    const std::size_t mine = begin(rank_ + 1) - begin(rank_);
    const std::byte* const all = packed(in_, 0, in_.count());
    std::vector<Elements> parts(size_);
    parts[rank_] = raw(const_cast<std::byte*>(all) + begin(rank_) * element_);
    for_each_other([&](std::size_t r) {
      send(first, r, all + begin(r) * element_, begin(r + 1) - begin(r));
      std::byte* const at = room(mine);
      receive(first, r, at, mine);
      parts[r] = raw(at);
    });
    fold_then(first, std::move(parts), to, mine);
    return first;
  }
  std::size_t even(std::size_t r, std::size_t count) const { return count / size_ * r + count % size_ * r / size_; }

  void all_reduce() {
    const std::size_t count = in_.count();
    if (count * element_ <= small_bytes || size_ == 1) {
      RankPhase& only = phase();
      const std::byte* const all = packed(in_, 0, count);
      std::vector<Elements> parts(size_);
      parts[rank_] = Elements(in_, 0);
      for_each_other([&](std::size_t r) {
        send(only, r, all, count);
        std::byte* const at = room(count);
        receive(only, r, at, count);
        parts[r] = raw(at);
      });
      fold_then(only, std::move(parts), Elements(out_, 0), count);
      return;
    }
    const auto begin = [&](std::size_t r) { return even(r, count); };
    plan_.reserve(plan_.size() + 2);
    RankPhase& last = plan_.emplace_back();  // what is on the way lands at its end
    std::byte* const full = landing(last, 0, count);
    RankPhase spread = std::move(last);
    plan_.pop_back();
    fold_parts(begin, raw(full + begin(rank_) * element_));
    for_each_other([&](std::size_t r) {
      send(spread, r, full + begin(rank_) * element_, begin(rank_ + 1) - begin(rank_));
      receive(spread, r, full + begin(r) * element_, begin(r + 1) - begin(r));
    });
    plan_.push_back(std::move(spread));
  }

  void reduce() {
    const std::size_t count = in_.count();
    const bool root = rank_ == root_;
    if (count * element_ <= gathered_bytes || size_ <= 2) {
      RankPhase& only = phase();
      if (!root) return send(only, root_, packed(in_, 0, count), count);
      std::vector<Elements> parts(size_);
      parts[rank_] = Elements(in_, 0);
      for_each_other([&](std::size_t r) {
        std::byte* const at = room(count);
        receive(only, r, at, count);
        parts[r] = raw(at);
      });
      return fold_then(only, std::move(parts), Elements(out_, 0), count);
    }
    const auto begin = [&](std::size_t r) { return even(r, count); };
    const std::size_t mine = begin(rank_ + 1) - begin(rank_);
    RankPhase collect;
    std::byte* const full = root ? landing(collect, 0, count) : nullptr;
    std::byte* const part = root ? full + begin(rank_) * element_ : room(mine);
    fold_parts(begin, raw(part));
    if (root) {
      for_each_other([&](std::size_t r) { receive(collect, r, full + begin(r) * element_, begin(r + 1) - begin(r)); });
    } else {
      send(collect, root_, part, mine);
    }
    plan_.push_back(std::move(collect));
  }

  void reduce_scatter() {
    const std::size_t count = out_.count();
    fold_parts([&](std::size_t r) { return r * count; }, Elements(out_, 0));
  }

  void broadcast() {
    const std::size_t count = out_.count();
    const bool root = rank_ == root_;
    if (count * element_ <= gathered_bytes || size_ <= 2) {
      RankPhase& only = phase();
      if (!root) return receive(only, root_, landing(only, 0, count), count);
      const std::byte* const all = packed(out_, 0, count);
      return for_each_other([&](std::size_t r) { send(only, r, all, count); });
    }
    const auto begin = [&](std::size_t r) { return even(r, count); };
    const auto length = [&](std::size_t r) { return begin(r + 1) - begin(r); };
    RankPhase spread;
    std::byte* const all = root ? const_cast<std::byte*>(packed(out_, 0, count)) : landing(spread, 0, count);
    RankPhase& parts = phase();
    if (root) {
      for_each_other([&](std::size_t r) { send(parts, r, all + begin(r) * element_, length(r)); });
    } else {
      receive(parts, root_, all + begin(rank_) * element_, length(rank_));
    }
    for_each_other([&](std::size_t r) {
      if (r != root_) send(spread, r, all + begin(rank_) * element_, length(rank_));
      if (!root) receive(spread, r, all + begin(r) * element_, length(r));
    });
    plan_.push_back(std::move(spread));
  }

  void gather(bool everywhere) {
    RankPhase& only = phase();
    const std::size_t count = in_.count();
    const std::byte* const mine = packed(in_, 0, count);
    if (!everywhere && rank_ != root_) return send(only, root_, mine, count);
    for_each_other([&](std::size_t r) {
      if (everywhere) send(only, r, mine, count);
      receive(only, r, landing(only, r * count, count), count);
    });
    copy_then(only, Elements(in_, 0), Elements(out_, rank_ * count), count);
  }

  void scatter() {
    RankPhase& only = phase();
    const std::size_t count = out_.count();
    if (rank_ != root_) return receive(only, root_, landing(only, 0, count), count);
    for_each_other([&](std::size_t r) { send(only, r, packed(in_, r * count, count), count); });
    copy_then(only, Elements(in_, rank_ * count), Elements(out_, 0), count);
  }

  /// Where each rank's part begins.
  std::vector<std::size_t> places(const std::vector<std::size_t>& counts, std::size_t all) const {
    std::vector<std::size_t> begin(size_ + 1, 0);
    for (std::size_t r = 0; r < size_; ++r) begin[r + 1] = begin[r] + (counts.empty() ? all / size_ : counts[r]);
    return begin;
  }

  void compare_parts() {
    RankPhase& only = phase();
    const std::vector<std::size_t> from = places(offer_.send_counts, in_.count());
    const std::vector<std::size_t> to = places(offer_.receive_counts, out_.count());
    for_each_other([&](std::size_t r) {
      send(only, r, nullptr, 0);
      only.messages.back().said = (from[r + 1] - from[r]) * element_;
      receive(only, r, nullptr, 0);
      only.messages.back().said = (to[r + 1] - to[r]) * element_;
    });
  }

  void all_to_all() {
    RankPhase& only = phase();
    const std::vector<std::size_t> from = places(offer_.send_counts, in_.count());
    const std::vector<std::size_t> to = places(offer_.receive_counts, out_.count());
    for_each_other([&](std::size_t r) {
      send(only, r, packed(in_, from[r], from[r + 1] - from[r]), from[r + 1] - from[r]);
      receive(only, r, landing(only, to[r], to[r + 1] - to[r]), to[r + 1] - to[r]);
    });
    copy_then(only, Elements(in_, from[rank_]), Elements(out_, to[rank_]), from[rank_ + 1] - from[rank_]);
  }

  /// After each round, twice as many ranks are known to have come.
  void barrier() {
    for (std::size_t distance = 1; distance < size_; distance *= 2) {
      RankPhase& round = phase();
      send(round, (rank_ + distance) % size_, nullptr, 0);
      receive(round, (rank_ + size_ - distance) % size_, nullptr, 0);
    }
  }

  void compare_calls() {
    if (is_pair(offer_.request.kind)) return;
    RankPhase& first = phase();
    for_each_other([&](std::size_t r) {
      send(first, r, nullptr, 0);
      receive(first, r, nullptr, 0);
    });
  }

  const Offer& offer_;
  const CollectiveOperand& in_;
  const CollectiveOperand& out_;
  const std::size_t rank_;
  const std::size_t size_;
  const std::size_t root_;
  const std::size_t element_;
  RankScratch& scratch_;
  const RankCopier copier_;
  RankPlan plan_;
};

}  // namespace

std::byte* RankScratch::take(std::size_t bytes) {
  if (bytes == 0) return nullptr;
  Block* best = nullptr;
  for (Block& block : blocks_) {
    if (!block.used && block.bytes >= bytes && (best == nullptr || block.bytes < best->bytes)) best = &block;
  }
  if (best == nullptr) {
    blocks_.push_back({std::unique_ptr<std::byte[]>(new std::byte[bytes]), bytes, false});
    best = &blocks_.back();
  }
  best->used = true;
  return best->data.get();
}

void RankScratch::reset() {
  // What the last collective did not need is not kept for the next one.
  std::size_t all = 0;
  std::erase_if(blocks_, [&](const Block& block) {
    all += block.bytes;
    return !block.used || all > kept_scratch;
  });
  for (Block& block : blocks_) block.used = false;
}

void RankScratch::abandon() {
  for (Block& block : blocks_) static_cast<void>(block.data.release());
  blocks_.clear();
}

RankPlan plan_of(const Offer& offer, int rank, int size, bool compare, RankScratch& scratch, const RankCopier& copier) {
  return Planner(offer, rank, size, scratch, copier).make(compare);
}

RankPlan plan_of_comparing(const Offer& offer, int rank, int size, RankScratch& scratch) {
  return Planner(offer, rank, size, scratch).make_comparing();
}

RankPlan plan_of_move(const Offer& offer, int rank, int size, std::function<void()> move,
                      std::shared_ptr<RankMove> until, RankScratch& scratch) {
  return Planner(offer, rank, size, scratch).make_move(std::move(move), std::move(until));
}

std::uint64_t fingerprint_of(const Offer& offer) {
  const CollectiveRequest& request = offer.request;
  const bool pair = is_pair(request.kind);
  const bool counted = request.kind != CollectiveKind::all_to_all;  // there, the messages are
  Hash hash;
  hash.add(pair ? std::uint64_t{100} : static_cast<std::uint64_t>(request.kind));
  hash.add(static_cast<std::uint64_t>(request.reduction));
  hash.add(pair ? std::uint64_t{0} : static_cast<std::uint64_t>(static_cast<std::int64_t>(request.peer)));
  if (counted) hash.add(std::uint64_t{count_of(request)});
  hash.add(std::string_view(request.in.present() ? request.in.type : request.out.type));
  return hash.value() == 0 ? 1 : hash.value();
}

std::uint64_t history_with(std::uint64_t history, std::uint64_t fingerprint) {
  Hash hash;
  hash.add(history);
  hash.add(fingerprint);
  return hash.value();
}

}  // namespace weir::detail
