// Records of all threads: a thread finds its list without a lock, and lists grow by pieces.
#include "trace/tape.hpp"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <new>
#include <utility>

#include <sys/mman.h>

namespace weir::trace {

namespace {

constexpr std::size_t most_texts = std::size_t{1} << 18;
constexpr std::size_t large_page = std::size_t{2} << 20;

std::atomic<std::uint64_t> next_tape{1};

/// The last writers that a thread has used. Tapes' numbers are never used again, so that what is left of one does no harm.
struct Seen {
  std::uint64_t tape = 0;
  Tape::Writer* writer = nullptr;
};
constinit thread_local std::array<Seen, 4> seen{};
/// The thread's objects come down: what it takes now it does not give back.
constinit thread_local bool leaving = false;

}  // namespace

/// The thread's writers, until it ends.
struct WritersOfThread {
  ~WritersOfThread() {
    leaving = true;
    seen = {};
    for (const auto& [tape, writer] : all) writer->taken_.store(false, std::memory_order_release);
  }
  std::vector<std::pair<std::uint64_t, std::shared_ptr<Tape::Writer>>> all;
};

Tape::Tape(std::size_t limit)
    : number_(next_tape.fetch_add(1, std::memory_order_relaxed)),
      most_pieces_(std::max<std::size_t>(2, limit / sizeof(Piece))) {}
Tape::~Tape() = default;

Tape::Writer& Tape::writer() {
  Seen& recent = seen[number_ % seen.size()];
  if (recent.tape == number_) [[likely]]
    return *recent.writer;
  if (leaving) {
    recent = {number_, take_writer().get()};
    return *recent.writer;
  }
  thread_local WritersOfThread mine;
  for (const auto& [tape, writer] : mine.all) {
    if (tape == number_) {
      recent = {number_, writer.get()};
      return *writer;
    }
  }
  // Tapes that are gone have no other owner of their writers.
  std::erase_if(mine.all, [](const auto& one) { return one.second.use_count() == 1; });
  mine.all.emplace_back(number_, take_writer());
  recent = {number_, mine.all.back().second.get()};
  return *recent.writer;
}

std::shared_ptr<Tape::Writer> Tape::take_writer() {
  const detail::LockGuard lock(mutex_);
  for (const std::shared_ptr<Writer>& writer : writers_) {
    bool taken = false;
    if (writer->taken_.compare_exchange_strong(taken, true, std::memory_order_acquire)) return writer;
  }
  writers_.push_back(std::make_shared<Writer>(*this, static_cast<std::uint32_t>(writers_.size())));
  return writers_.back();
}

Tape::Piece* Tape::next_piece(Writer& writer) {
  const detail::LockGuard lock(mutex_);
  if (writer.piece_ != nullptr) writer.piece_->open = false;
  Piece* next = nullptr;
  if (pieces_.size() >= most_pieces_) {
    const auto oldest = std::find_if(pieces_.begin(), pieces_.end(), [](const auto& piece) { return !piece->open; });
    if (oldest != pieces_.end()) {
      next = *oldest;
      pieces_.erase(oldest);
      for (const TapeRecord& record : next->records) dropped_ += record.kind == TapeRecord::Kind::command ? 1 : 0;
    }
  }
  if (next == nullptr) next = new_piece();
  next->count.store(0, std::memory_order_relaxed);
  next->open = true;
  next->writer = writer.place_;
  pieces_.push_back(next);
  return next;
}

void Tape::Free::operator()(void* slab) const { std::free(slab); }

/// By large pages, where the system has them: the program's threads would meet each small one for the first time, which costs a record
/// as much as writing it.
Tape::Piece* Tape::new_piece() {
  if (pieces_left_ == 0) {
    const std::size_t wanted = std::max(most_pieces_, pieces_.size() + 1) - pieces_.size();
    const std::size_t count = std::min(wanted, large_page / sizeof(Piece));
    const bool whole = (count + 1) * sizeof(Piece) > large_page;
    std::unique_ptr<void, Free> slab(whole ? std::aligned_alloc(large_page, large_page)
                                           : std::malloc(count * sizeof(Piece)));
    if (slab == nullptr) throw std::bad_alloc();
    if (whole) madvise(slab.get(), large_page, MADV_HUGEPAGE);
    slabs_.push_back(std::move(slab));
    pieces_left_ = count;
  }
  --pieces_left_;
  return new (static_cast<char*>(slabs_.back().get()) + pieces_left_ * sizeof(Piece)) Piece;
}

Text Tape::intern(std::string_view text) {
  const detail::LockGuard lock(mutex_);
  if (texts_.size() >= most_texts && places_.count(std::string(text)) == 0) return none;
  const auto [at, is_new] = places_.try_emplace(std::string(text), static_cast<Text>(texts_.size()));
  if (is_new) texts_.push_back(at->first);
  return at->second;
}

Tape::Contents Tape::read() const {
  const detail::LockGuard lock(mutex_);
  Contents contents{std::vector<std::vector<TapeRecord>>(writers_.size()), texts_, dropped_};
  for (const Piece* piece : pieces_) {
    std::vector<TapeRecord>& thread = contents.threads[piece->writer];
    thread.insert(thread.end(), piece->records, piece->records + piece->count.load(std::memory_order_acquire));
  }
  return contents;
}

std::string readable(std::string_view name) {
  constexpr std::string_view mangled = "_GLOBAL__N__";
  std::string made(name);
  for (std::size_t at = made.find(mangled); at != std::string::npos; at = made.find(mangled, at + 1)) {
    made.replace(at, std::min(made.find("::", at), made.size()) - at, "{anonymous}");
  }
  return made;
}

}  // namespace weir::trace
