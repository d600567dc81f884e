// What a session is told, as it comes: records in a list for each thread, so that threads never meet.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <unordered_map>
#include <vector>

#include <weir/op.hpp>
#include <weir/trace.hpp>

#include "thread_safety.hpp"

namespace weir::trace {

/// What a program tells again and again: of one line's calls in one stream it is mostly the same.
struct TapeShape {
  /// `owner`: from here on the list is another thread's.
  enum class Kind : std::uint8_t { command, behind, ran, wait, range, refused, collective, node, owner };

  std::uint64_t stream = 0;
  /// Bytes; of a collective: its communicator; of a record or wait: the event; of Alloc and Free: the address; of a node: its
  /// number; of what ran by a virtual clock: when it was called; of an owner: its number.
  std::uint64_t a = 0;
  Text name = none;
  Text file = none;
  Text arguments = none;     ///< of a launch
  std::uint32_t line = 0;    ///< of a collective: the rank
  std::uint32_t thread = 0;  ///< of a collective: how many ranks; `stream` is 1 more than the peer
  Kind kind = Kind::command;
  Lane lane = Lane::kernel;
  std::uint8_t what = 0;  ///< of `order`: OrderKind; of a wait: HostWait::Kind
  bool flag =
      false;  ///< pageable; of what ran: by a virtual clock; of a wait: of a pageable copy; of a collective: other
              ///< processes have ranks

  bool operator==(const TapeShape& other) const { return std::memcmp(this, &other, sizeof *this) == 0; }
};
static_assert(std::has_unique_object_representations_v<TapeShape>);

/// One thing that was told. Moments are of the steady clock, in nanoseconds.
struct TapeRecord : TapeShape {
  std::uint64_t id = 0;  ///< of the command
  std::int64_t begin = 0;
  std::int64_t end = 0;
  std::uint64_t b = 0;  ///< elements; of a collective: its number; of a record or wait: its number; of a graph: its id
};
enum class OrderKind : std::uint8_t { record, wait, behind, alloc, free };

/// nvcc's names of anonymous namespaces, as _GLOBAL__N__b9b6481a_8_work_cpp_a20acb89, are {anonymous}.
std::string readable(std::string_view name);

/// Records of all threads, bounded: the oldest make room for new ones.
class Tape {
 public:
  struct Piece;
  class Writer;

  explicit Tape(std::size_t limit);
  ~Tape();
  Tape(const Tape&) = delete;
  Tape& operator=(const Tape&) = delete;

  /// The calling thread's. Valid in the call.
  Writer& writer();
  Text intern(std::string_view text);

  /// A range that had not ended.
  struct OpenRange {
    std::uint32_t thread;  ///< its place in `threads`
    Text name;
    std::int64_t begin;
  };
  struct Contents {
    std::vector<std::vector<TapeRecord>> threads;  ///< of one thread each, in the order in which they came
    std::vector<std::string> texts;
    std::vector<OpenRange> open;
    std::uint64_t dropped = 0;  ///< commands that made room
  };
  Contents read() const;

 private:
  friend class Writer;
  friend struct WritersOfThread;
  /// The last command of a stream whose end made room.
  struct Ended {
    static constexpr std::int64_t never = std::numeric_limits<std::int64_t>::min();
    std::uint64_t command = 0;
    std::int64_t end = never;
    std::int64_t begin = never;  ///< by the clock of the calls
  };
  using EndedByStream = std::unordered_map<std::uint64_t, Ended>;

  std::shared_ptr<Writer> take_writer();
  Piece* next_piece(Writer& writer);
  Piece* new_piece() WEIR_NEEDS(mutex_);
  void add_slab() WEIR_NEEDS(mutex_);
  void touch_first_slab();
  void remember_ends(const Piece& piece) WEIR_NEEDS(mutex_);
  static void leave_out_what_ended(Contents& contents, EndedByStream ended);

  const std::uint64_t number_;  ///< unique in the process
  const std::size_t most_pieces_;
  mutable detail::Mutex mutex_;
  std::deque<Piece*> pieces_ WEIR_GUARDED_BY(mutex_);  ///< the oldest first
  struct Free {
    void operator()(void* slab) const;
  };
  std::vector<std::unique_ptr<void, Free>> slabs_ WEIR_GUARDED_BY(mutex_);  ///< memory of many pieces each
  std::size_t pieces_left_ WEIR_GUARDED_BY(mutex_) = 0;                     ///< in the last slab
  std::vector<std::shared_ptr<Writer>> writers_ WEIR_GUARDED_BY(mutex_);
  std::vector<std::string> texts_ WEIR_GUARDED_BY(mutex_);
  std::unordered_map<std::string, Text> places_ WEIR_GUARDED_BY(mutex_);
  std::uint64_t dropped_ WEIR_GUARDED_BY(mutex_) = 0;
  EndedByStream ended_ WEIR_GUARDED_BY(mutex_);
};

/// Memory that nobody had before is what a record costs most. So one that has the shape of another in its piece is a cell, which names
/// that one; others take four.
struct Tape::Piece {
  static constexpr std::uint32_t capacity = 512;
  struct Cell {
    static constexpr std::uint16_t whole = 0xffff;
    std::uint64_t id;
    std::int64_t begin;
    std::uint32_t rest;   ///< how long it lasted, or `b`
    std::uint16_t like;   ///< the cell of the whole record that has its shape, or `whole`
    std::uint16_t place;  ///< of a node: what its number is more than the shape's
  };
  static constexpr std::uint32_t cells_of_whole = 4;
  /// Behind its first cell.
  struct Rest {
    TapeShape shape;
    std::int64_t end;
    std::uint64_t b;
  };
  static_assert(sizeof(Rest) <= (cells_of_whole - 1) * sizeof(Cell));

  /// The place of the record behind this one; those before `count` are there.
  std::uint32_t behind(std::uint32_t at) const { return at + (cells[at].like == Cell::whole ? cells_of_whole : 1); }
  Rest rest_of(std::uint32_t at) const {
    Rest rest;
    std::memcpy(static_cast<void*>(&rest), cells + at + 1, sizeof rest);
    return rest;
  }
  TapeRecord record(std::uint32_t at) const;

  std::atomic<std::uint32_t> count{0};  ///< cells: those behind it may be read
  std::uint32_t writer = 0;
  std::uint32_t owner = 0;  ///< of its first record
  bool open = true;         ///< its writer adds to it
  Cell cells[capacity];
};

/// One thread's end of the tape. When the thread is gone, another one's.
class Tape::Writer {
 public:
  explicit Writer(Tape& tape, std::uint32_t place) : tape_(tape), place_(place) {}

  /// The next record, to be filled in; it is there once add() was called.
  TapeRecord& next() { return record_ = TapeRecord(); }
  void add();
  /// Of a text that stays where it is, as those of files and kernels.
  Text file(const char* name) {
    if (name != last_file_.at) last_file_ = {name, known(name, name)};
    return last_file_.text;
  }
  Text kernel(std::string_view name) {
    if (name.data() != last_kernel_.at) last_kernel_ = {name.data(), known(name.data(), name)};
    return last_kernel_.text;
  }
  /// Of one that may be another one next time.
  Text text(std::string_view text) {
    if (text != last_name_) {
      last_name_ = text;
      last_name_text_ = tape_.intern(text);
    }
    return last_name_text_;
  }
  /// What a launch's arrays have of bytes that it touches. Programs say the same again and again: texts of what they said last are
  /// found without the tape. None of a launch with more arrays, or where there were too many texts of this thread's.
  static constexpr std::size_t most_arguments = 16;
  struct Argument {
    std::uint64_t bytes;
    Access access;
    bool operator==(const Argument&) const = default;
  };
  Text arguments(std::span<const Argument> all) {
    std::uint64_t hash = 0;
    for (const Argument& one : all) hash = (hash ^ one.bytes) * 0x9e3779b97f4a7c15 + static_cast<unsigned>(one.access);
    Arguments& recent = last_arguments_[hash >> 60];
    if (!std::equal(all.begin(), all.end(), recent.all, recent.all + recent.count)) remember(recent, all);
    return recent.text;
  }
  /// What a launch told, in few lines of memory: a driver's call leaves little else in the first cache, and mostly the next one tells the same.
  struct LastLaunch {
    static constexpr std::size_t most = 4;
    const char* file = nullptr;
    const char* kernel = nullptr;
    std::uint64_t stream = 0;
    std::uint32_t line = 0;
    std::uint32_t thread = 0;
    std::size_t count = 0;
    std::uint16_t like = Piece::Cell::whole;  ///< the cell of the whole record; `whole`: there is none in this piece
    Argument all[most];
  };
  /// For who has added the record of a launch, to be filled in.
  LastLaunch& note_launch() {
    last_launch_.like = last_like_;
    return last_launch_;
  }
  const LastLaunch& last_launch() const { return last_launch_; }
  /// Of a command that is like the last launch but for these. False: there is no room, it is to be told as a whole.
  bool add_again(std::uint64_t id, std::int64_t begin, std::uint64_t elements) {
    if (last_launch_.like == Piece::Cell::whole || count_ >= Piece::capacity ||
        elements > std::numeric_limits<std::uint32_t>::max()) {
      return false;
    }
    add_cell({id, begin, static_cast<std::uint32_t>(elements), last_launch_.like, 0});
    return true;
  }
  /// Ranges that are open are kept beside the records: they are told before they end, and however many records make room.
  void begin_range(std::string_view name, std::int64_t begin);
  void end_range(std::string_view name, std::int64_t begin, std::int64_t end);

 private:
  friend class Tape;
  friend struct WritersOfThread;
  Tape& tape_;
  const std::uint32_t place_;
  std::atomic<bool> taken_{true};
  std::uint32_t owner_ = 0;  ///< how many threads had it before
  struct Open {
    std::uint32_t owner;
    Text name;
    std::int64_t begin;
  };
  detail::Mutex open_mutex_;  ///< taken for moments; behind the tape's, if both are
  std::vector<Open> open_ WEIR_GUARDED_BY(open_mutex_);
  void add_whole(std::uint16_t place, std::uint16_t& known);
  void add_cell(const Piece::Cell& cell) {
    piece_->cells[count_] = cell;
    piece_->count.store(++count_, std::memory_order_release);
    // No cache has what is behind it yet: a driver's call that comes next would wait until what was written is there, and this core has
    // time now.
    __builtin_prefetch(piece_->cells + std::min(count_ + 2, Piece::capacity - 1), 1);
  }

  Piece* piece_ = nullptr;
  std::uint32_t count_ = Piece::capacity;         ///< of cells in it
  std::uint16_t last_like_ = Piece::Cell::whole;  ///< of the last record
  LastLaunch last_launch_;
  TapeRecord record_;
  /// Whole records of the piece, by a hash of their shapes; 1 more than the cell, 0: none.
  static constexpr std::size_t most_shapes = 64;
  std::array<std::uint16_t, most_shapes> shapes_{};
  struct Last {
    const char* at = nullptr;
    Text text = none;
  };
  Text known(const char* at, std::string_view text) {
    const auto [place, is_new] = known_.try_emplace(at, none);
    if (is_new) place->second = tape_.intern(readable(text));
    return place->second;
  }
  struct Arguments {
    std::size_t count = 0;
    Argument all[most_arguments];
    Text text = none;
  };
  void remember(Arguments& place, std::span<const Argument> all);

  Last last_file_;
  Last last_kernel_;
  std::string last_name_;
  Text last_name_text_ = none;
  std::unordered_map<const void*, Text> known_;
  Arguments last_arguments_[16];
  std::size_t argument_texts_ = 0;
};

}  // namespace weir::trace
