// Records of all threads: a thread finds its list without a lock, and lists grow by pieces.
#include "trace/tape.hpp"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <map>
#include <new>
#include <utility>

#include <sys/mman.h>

namespace weir::trace {

namespace {

constexpr std::size_t most_texts = std::size_t{1} << 18;
constexpr std::size_t large_page = std::size_t{2} << 20;
constexpr std::size_t small_page = 4096;  // or larger

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
      most_pieces_(std::max<std::size_t>(2, limit / sizeof(Piece))) {
  touch_first_slab();
}
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

namespace {

bool lasts(TapeRecord::Kind kind) {
  return kind == TapeRecord::Kind::ran || kind == TapeRecord::Kind::wait || kind == TapeRecord::Kind::range ||
         kind == TapeRecord::Kind::node;
}

std::uint64_t hash_of(const TapeShape& shape) {
  const std::uint64_t words = shape.stream * 0x9e3779b97f4a7c15 + shape.a + shape.line * std::uint64_t{0x85ebca6b} +
                              static_cast<std::uint64_t>(shape.kind) + shape.name * std::uint64_t{0xc2b2ae35};
  return words * 0x9e3779b97f4a7c15;
}

}  // namespace

TapeRecord Tape::Piece::record(std::uint32_t at) const {
  const Cell& cell = cells[at];
  const bool whole = cell.like == Cell::whole;
  const Rest rest = rest_of(whole ? at : cell.like);
  TapeRecord made;
  static_cast<TapeShape&>(made) = rest.shape;
  made.a += cell.place;
  made.id = cell.id;
  made.begin = cell.begin;
  made.end = whole || !lasts(made.kind) ? rest.end : cell.begin + cell.rest;
  made.b = whole || lasts(made.kind) ? rest.b : cell.rest;
  return made;
}

void Tape::Writer::add() {
  constexpr std::uint64_t most = std::numeric_limits<std::uint32_t>::max();
  std::uint16_t place = 0;
  if (record_.kind == TapeRecord::Kind::node && record_.a <= std::numeric_limits<std::uint16_t>::max()) {
    place = static_cast<std::uint16_t>(std::exchange(record_.a, 0));
  }
  std::uint16_t& known = shapes_[hash_of(record_) / (~std::uint64_t{0} / most_shapes + 1)];
  const bool has_end = lasts(record_.kind);
  const std::uint64_t rest = has_end ? static_cast<std::uint64_t>(record_.end - record_.begin) : record_.b;
  if (count_ >= Piece::capacity || known == 0 || rest > most) return add_whole(place, known);
  const Piece::Rest like = piece_->rest_of(known - 1u);
  if (!(like.shape == record_) || (has_end ? like.b != record_.b : like.end != record_.end)) {
    return add_whole(place, known);
  }
  last_like_ = static_cast<std::uint16_t>(known - 1);
  add_cell({record_.id, record_.begin, static_cast<std::uint32_t>(rest), last_like_, place});
}

void Tape::Writer::add_whole(std::uint16_t place, std::uint16_t& known) {
  if (count_ + Piece::cells_of_whole > Piece::capacity) {
    piece_ = tape_.next_piece(*this);
    count_ = 0;
    shapes_ = {};
    last_launch_.like = Piece::Cell::whole;
  }
  const Piece::Rest rest{record_, record_.end, record_.b};
  piece_->cells[count_] = {record_.id, record_.begin, 0, Piece::Cell::whole, place};
  std::memcpy(piece_->cells + count_ + 1, &rest, sizeof rest);
  last_like_ = static_cast<std::uint16_t>(count_);
  known = static_cast<std::uint16_t>(count_ + 1);
  count_ += Piece::cells_of_whole;
  piece_->count.store(count_, std::memory_order_release);
}

std::shared_ptr<Tape::Writer> Tape::take_writer() {
  std::shared_ptr<Writer> found;
  {
    const detail::LockGuard lock(mutex_);
    for (const std::shared_ptr<Writer>& writer : writers_) {
      bool taken = false;
      if (!writer->taken_.compare_exchange_strong(taken, true, std::memory_order_acquire)) continue;
      found = writer;
      break;
    }
    if (found == nullptr) {
      writers_.push_back(std::make_shared<Writer>(*this, static_cast<std::uint32_t>(writers_.size())));
      return writers_.back();
    }
    ++found->owner_;
  }
  TapeRecord& record = found->next();
  record.kind = TapeRecord::Kind::owner;
  record.a = found->owner_;
  found->add();
  return found;
}

Tape::Piece* Tape::next_piece(Writer& writer) {
  const detail::LockGuard lock(mutex_);
  if (writer.piece_ != nullptr) writer.piece_->open = false;
  Piece* next = nullptr;
  if (pieces_.size() >= most_pieces_) {
    const auto oldest = std::find_if(pieces_.begin(), pieces_.end(), [](const auto& piece) { return !piece->open; });
    if (oldest != pieces_.end()) {
      remember_ends(**oldest);
      next = *oldest;
      pieces_.erase(oldest);
      const std::uint32_t end = next->count.load(std::memory_order_relaxed);
      for (std::uint32_t at = 0; at < end; at = next->behind(at)) {
        dropped_ += next->record(at).kind == TapeRecord::Kind::command ? 1 : 0;
      }
    }
  }
  if (next == nullptr) next = new_piece();
  next->count.store(0, std::memory_order_relaxed);
  next->open = true;
  next->writer = writer.place_;
  next->owner = writer.owner_;
  pieces_.push_back(next);
  return next;
}

void Tape::remember_ends(const Piece& piece) {
  std::uint64_t stream = 0;
  Ended* last = nullptr;
  const std::uint32_t end = piece.count.load(std::memory_order_relaxed);
  for (std::uint32_t at = 0; at < end; at = piece.behind(at)) {
    const TapeRecord record = piece.record(at);
    if (record.kind != TapeRecord::Kind::ran) continue;
    if (last == nullptr || record.stream != stream) last = &ended_[stream = record.stream];
    if (record.end >= last->end) *last = {record.id, record.end, record.flag ? Ended::never : record.begin};
  }
}

void Tape::Free::operator()(void* slab) const { std::free(slab); }

Tape::Piece* Tape::new_piece() {
  if (pieces_left_ == 0) add_slab();
  --pieces_left_;
  return new (static_cast<char*>(slabs_.back().get()) + pieces_left_ * sizeof(Piece)) Piece;
}

/// By large pages, where the system has them: the program's threads would meet each small one for the first time, which costs a record
/// as much as writing it.
void Tape::add_slab() {
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

/// The first commands would pay for the first large page, which lasts for thousands.
void Tape::touch_first_slab() {
  const detail::LockGuard lock(mutex_);
  add_slab();
  auto* const bytes = static_cast<volatile char*>(slabs_.back().get());
  for (std::size_t at = 0; at < pieces_left_ * sizeof(Piece); at += small_page) bytes[at] = 0;
}

Text Tape::intern(std::string_view text) {
  const detail::LockGuard lock(mutex_);
  if (texts_.size() >= most_texts && places_.count(std::string(text)) == 0) return none;
  const auto [at, is_new] = places_.try_emplace(std::string(text), static_cast<Text>(texts_.size()));
  if (is_new) texts_.push_back(at->first);
  return at->second;
}

Tape::Contents Tape::read() const {
  Contents contents;
  EndedByStream ended;
  {
    const detail::LockGuard lock(mutex_);
    contents.texts = texts_;
    contents.dropped = dropped_;
    ended = ended_;
    std::map<std::pair<std::uint32_t, std::uint32_t>, std::uint32_t> places;  // by writer and owner
    const auto thread = [&](std::uint32_t writer, std::uint32_t owner) {
      const auto [at, is_new] = places.try_emplace({writer, owner}, static_cast<std::uint32_t>(places.size()));
      if (is_new) contents.threads.emplace_back();
      return at->second;
    };
    // These first: one that ends meanwhile is among the records, too.
    for (const std::shared_ptr<Writer>& writer : writers_) {
      const detail::LockGuard open(writer->open_mutex_);
      for (const auto& [owner, name, begin] : writer->open_) {
        contents.open.push_back({thread(writer->place_, owner), name, begin});
      }
    }
    for (const Piece* piece : pieces_) {
      std::uint32_t list = thread(piece->writer, piece->owner);
      const std::uint32_t end = piece->count.load(std::memory_order_acquire);
      for (std::uint32_t at = 0; at < end; at = piece->behind(at)) {
        const TapeRecord one = piece->record(at);
        if (one.kind == TapeRecord::Kind::owner) {
          list = thread(piece->writer, static_cast<std::uint32_t>(one.a));
        } else {
          contents.threads[list].push_back(one);
        }
      }
    }
  }
  leave_out_what_ended(contents, std::move(ended));
  return contents;
}

/// Commands whose ends made room do so, too: they would look as if they had not ended. A stream's commands end in their order, so it is
/// those up to the last one whose end is or was known.
void Tape::leave_out_what_ended(Contents& contents, EndedByStream ended) {
  if (ended.empty()) return;
  std::vector<std::uint64_t> ran, refused, lost;
  std::vector<const TapeRecord*> commands;
  for (const std::vector<TapeRecord>& thread : contents.threads) {
    for (const TapeRecord& one : thread) {
      if (one.kind == TapeRecord::Kind::ran) ran.push_back(one.id);
      if (one.kind == TapeRecord::Kind::refused) refused.push_back(one.id);
      if (one.kind != TapeRecord::Kind::command || one.lane == Lane::order || one.lane == Lane::memory) continue;
      const auto last = ended.find(one.stream);
      if (last == ended.end()) continue;
      commands.push_back(&one);
      if (one.id == last->second.command) last->second.begin = Ended::never;  // its place says more than its time
    }
  }
  std::sort(ran.begin(), ran.end());
  std::sort(refused.begin(), refused.end());
  // The last of a stream first.
  std::sort(commands.begin(), commands.end(), [](const TapeRecord* a, const TapeRecord* b) {
    return std::pair(a->stream, a->begin) > std::pair(b->stream, b->begin);
  });
  std::uint64_t stream = 0;
  bool is_past = false;
  for (const TapeRecord* one : commands) {
    if (std::binary_search(refused.begin(), refused.end(), one->id)) continue;
    const Ended& last = ended.at(one->stream);
    if (std::exchange(stream, one->stream) != one->stream) is_past = false;
    const bool has_ended = std::binary_search(ran.begin(), ran.end(), one->id);
    is_past = is_past || has_ended || one->id == last.command || one->begin <= last.begin;
    if (is_past && !has_ended) lost.push_back(one->id);
  }
  std::sort(lost.begin(), lost.end());
  for (std::vector<TapeRecord>& thread : contents.threads) {
    contents.dropped += std::erase_if(thread, [&](const TapeRecord& one) {
      return one.kind == TapeRecord::Kind::command && std::binary_search(lost.begin(), lost.end(), one.id);
    });
  }
}

void Tape::Writer::remember(Arguments& place, std::span<const Argument> all) {
  constexpr std::size_t most = 1 << 14;  // texts of kernels and files must find room beside them
  std::string words;
  for (const Argument& one : all) {
    words += words.empty() ? "" : ", ";
    words += one.access == Access::read ? "in " : one.access == Access::write ? "out " : "inout ";
    words += std::to_string(one.bytes);
  }
  place.text = argument_texts_ < most ? tape_.intern(words) : none;
  ++argument_texts_;
  place.count = all.size();
  std::copy(all.begin(), all.end(), place.all);
}

void Tape::Writer::begin_range(std::string_view name, std::int64_t begin) {
  const Text known = text(name);
  const detail::LockGuard lock(open_mutex_);
  open_.push_back({owner_, known, begin});
}

void Tape::Writer::end_range(std::string_view name, std::int64_t begin, std::int64_t end) {
  // The last that began, unless the session began after it.
  std::size_t place = 0;
  TapeRecord made;
  made.kind = TapeRecord::Kind::range;
  made.begin = begin;
  made.end = end;
  {
    const detail::LockGuard lock(open_mutex_);
    for (place = open_.size(); place > 0; --place) {
      if (open_[place - 1].owner == owner_ && open_[place - 1].begin == begin) break;
    }
    if (place > 0) made.name = open_[place - 1].name;
  }
  if (place == 0) made.name = text(name);
  next() = made;
  add();
  if (place == 0) return;
  // Only now: whoever reads meanwhile finds it in one of both.
  const detail::LockGuard lock(open_mutex_);
  open_.erase(open_.begin() + static_cast<std::ptrdiff_t>(place - 1));
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
