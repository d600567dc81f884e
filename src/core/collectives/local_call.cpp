// One collective of ranks of this process: from what they said to what is done.
#include <algorithm>
#include <span>
#include <utility>

#include "core/collectives/communicator_state.hpp"
#include "core/observers.hpp"
#include "failure_reports.hpp"

namespace weir::detail {

namespace {

constexpr std::size_t chunk_bytes = 256 * 1024;  ///< of one array: what a thread takes at a time

std::size_t part_begin(const std::vector<std::size_t>& counts, std::size_t rank, std::size_t even) {
  if (counts.empty()) return rank * even;
  std::size_t begin = 0;
  for (std::size_t i = 0; i < rank; ++i) begin += counts[i];
  return begin;
}

}  // namespace

CallReference::CallReference(const CallReference& other) noexcept : call_(other.call_) {
  if (call_ != nullptr) call_->retain();
}
CallReference::~CallReference() {
  if (call_ != nullptr) call_->release();
}

LocalCall::LocalCall(std::shared_ptr<CommunicatorState> communicator, std::uint64_t number,
                     const std::vector<int>& ranks)
    : communicator_(std::move(communicator)),
      number_(number),
      ranks_(ranks.size()),
      parts_(ranks.size()),
      offers_(ranks.size()),
      there_(ranks.size()) {
  std::copy(ranks.begin(), ranks.end(), ranks_.begin());
  for (CollectivePart& part : parts_) part.call = this;
}

LocalCall::LocalCall(std::shared_ptr<CommunicatorState> communicator, std::uint64_t number, int rank)
    : communicator_(std::move(communicator)), number_(number), ranks_(1), parts_(1), offers_(1), there_(1) {
  ranks_[0] = rank;
  parts_[0].call = this;
}

std::size_t LocalCall::index_of(int rank) const {
  return static_cast<std::size_t>(std::find(ranks_.begin(), ranks_.end(), rank) - ranks_.begin());
}

bool LocalCall::is_complete() const {
  return std::all_of(there_.begin(), there_.end(), [](bool there) { return there; });
}

bool LocalCall::is_being_called() const {
  for (std::size_t i = 0; i < offers_.size(); ++i) {
    if (offers_[i] && !there_[i]) return true;
  }
  return false;
}

void LocalCall::set_there(std::size_t index, const std::optional<CommunicatorState::Failure>& failure) noexcept {
  there_[index] = true;
  if (over() && failure) let_go(index, failure->code, failure->text);
}

std::shared_ptr<const Error> LocalCall::error_of(std::size_t index, Errc code, const std::string& text) const {
  return std::make_shared<const Error>(code, operation_of(offers_[index]->request.kind),
                                       communicator_->describe(ranks_[index]), text, offers_[index]->where);
}

/// With a failure of its own, or with this one.
void LocalCall::let_go(std::size_t index, Errc code, const std::string& text) noexcept {
  CollectivePart& part = parts_[index];
  if (!part.failure) {
    try {
      part.failure = error_of(index, code, text);
    } catch (...) {
      part.failure = failure_of({code, "weir: a collective", "another rank", {}, "a communicator", {}}, nullptr);
    }
  }
  communicator_->transport->let_go(part);
}

CollectiveShare LocalCall::share(std::size_t index) const {
  const Offer& said = *offers_[index];
  return {ranks_[index], said.request, said.send_counts, said.receive_counts, said.where};
}

void LocalCall::fail_all(Errc code, const std::string& why) noexcept {
  const LockGuard guard(communicator_->mutex);
  try {
    communicator_->fail(code, why);
  } catch (...) {
    // No memory for texts.
  }
  stop_with(code, why, ranks_.size(), nullptr);  // unless that did
}

void LocalCall::prepare() {
  if (!communicator_->transport->traits().by_elements) return;
  work_ = work_of(offers_.all());
  extent_ = work_.extent();
  grain_ = std::max<std::size_t>(1, chunk_bytes / work_.element_bytes());
}

CollectiveWork work_of(std::span<const std::optional<Offer>> offers) {
  CollectiveWork work;
  const CollectiveRequest& any = offers.front()->request;
  const std::size_t ranks = offers.size();
  const auto root = static_cast<std::size_t>(std::max(any.peer, 0));
  const auto in = [&](std::size_t rank) -> const CollectiveOperand& { return offers[rank]->request.in; };
  const auto out = [&](std::size_t rank) -> const CollectiveOperand& { return offers[rank]->request.out; };
  const auto fold = [&](bool all, std::size_t count, bool scattered) {
    if (count == 0) return;
    std::vector<Elements> from;
    std::vector<Elements> to;
    for (std::size_t r = 0; r < ranks; ++r) {
      from.emplace_back(in(r), 0);
      if (all || r == root) to.emplace_back(out(r), 0);
    }
    work.fold(any.reduction, any.in.kind, std::move(from), std::move(to), count, scattered);
  };
  switch (any.kind) {
    case CollectiveKind::all_reduce: fold(true, any.in.count(), false); break;
    case CollectiveKind::reduce: fold(false, any.in.count(), false); break;
    case CollectiveKind::reduce_scatter: fold(true, any.out.count(), true); break;
    case CollectiveKind::broadcast:
      for (std::size_t r = 0; r < ranks; ++r) {
        if (r != root) work.move({out(root), 0}, {out(r), 0}, any.out.count());
      }
      break;
    case CollectiveKind::all_gather:
    case CollectiveKind::gather:
      for (std::size_t to = 0; to < ranks; ++to) {
        if (any.kind == CollectiveKind::gather && to != root) continue;
        for (std::size_t r = 0; r < ranks; ++r) work.move({in(r), 0}, {out(to), r * any.in.count()}, any.in.count());
      }
      break;
    case CollectiveKind::scatter:
      for (std::size_t r = 0; r < ranks; ++r) {
        work.move({in(root), r * any.out.count()}, {out(r), 0}, any.out.count());
      }
      break;
    case CollectiveKind::all_to_all:
      for (std::size_t from = 0; from < ranks; ++from) {
        for (std::size_t to = 0; to < ranks; ++to) {
          const auto& sent = offers[from]->send_counts;
          const std::size_t even = in(from).count() / ranks;
          work.move({in(from), part_begin(sent, to, even)},
                    {out(to), part_begin(offers[to]->receive_counts, from, even)}, sent.empty() ? even : sent[to]);
        }
      }
      break;
    case CollectiveKind::barrier: break;
    case CollectiveKind::send:
    case CollectiveKind::receive: work.move({in(0), 0}, {out(1), 0}, in(0).count()); break;
  }
  return work;
}

void LocalCall::tell_order() const {
  for (std::size_t i = 0; i < offers_.size(); ++i) {
    const StreamRef stream = offers_[i]->stream;
    std::vector<StreamId> others;
    for (const auto& other : offers_) {
      if (!(other->stream == stream)) others.push_back(other->stream.id());
    }
    // A stream may be gone since its rank called.
    const bool alive = stream.state()->id.load(std::memory_order_acquire) == stream.id();
    if (alive && !others.empty()) observe_order(stream, others, offers_[i]->where);
  }
}

void LocalCall::let_parts_go() noexcept {
  for (CollectivePart& part : parts()) communicator_->transport->let_go(part);
}

bool LocalCall::stop_with(Errc code, const std::string& text, std::size_t index,
                          const std::shared_ptr<const Error>& own) noexcept {
  if (!stop()) return false;
  // The stream of its own failure has come to its part.
  if (index < ranks_.size()) parts_[index].failure = own;
  for (std::size_t i = 0; i < ranks_.size(); ++i) {
    if (there_[i]) let_go(i, code, text);
  }
  return true;
}

void LocalCall::fail_part(std::size_t index, std::shared_ptr<const Error> failure) noexcept {
  const LockGuard guard(communicator_->mutex);
  if (communicator_->failure) {
    // Of a mismatch no rank is to blame.
    if (communicator_->failure->code != Errc::collective_mismatch) {
      communicator_->ranks[static_cast<std::size_t>(ranks_[index])].failed = true;
    }
    stop_with(communicator_->failure->code, communicator_->failure->text, index, failure);
    return;
  }
  std::string text = "a rank failed";
  try {
    communicator_->ranks[static_cast<std::size_t>(ranks_[index])].failed = true;
    text = communicator_->describe(ranks_[index]) + " failed before it came to this: " + failure->what();
    const std::string all = text + communicator_->table();
    stop_with(Errc::rank_failed, all, index, failure);
    communicator_->fail(Errc::rank_failed, text);
  } catch (...) {
    // No memory for texts: the streams go on, and fail.
    stop_with(Errc::rank_failed, text, index, failure);
  }
}

}  // namespace weir::detail
