// Which buffer of a recording an address lies in: allocations that were seen, and ranges of memory that was only used.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <unordered_map>
#include <vector>

#include <weir/op.hpp>
#include <weir/recording.hpp>

namespace weir::recorded {

/// Places of ranges are not final before the recording ends, for ranges grow and meet: until then a use has `range_bit` and
/// the number of its range for its buffer, and the address for its offset.
inline constexpr std::uint32_t range_bit = 0x80000000;

/// Thread rule: one at a time.
class MemoryMap {
 public:
  /// An allocation that was seen, until it ends; its buffer's place.
  void add(BufferId id, const void* data, std::size_t bytes, std::uint32_t place);
  /// The place of what ends; none if it was not seen.
  std::uint32_t remove(BufferId id, const void* data);
  std::uint32_t place_of(BufferId id) const;
  /// Whether it was seen to be made, or was used, and has not ended.
  bool lives(BufferId id) const { return by_id_.contains(id) || unseen_.contains(id); }
  /// Grows with each array that ends.
  std::uint64_t ends() const { return ends_; }
  /// Grows when the next use of an older array may change its range, though an earlier one of the same bytes did so before.
  std::uint64_t shifts() const { return shifts_; }

  /// Memory of the program's own that is pinned, and by which line: a use of some of it is of a range that has all of it.
  void pinned(const void* data, std::size_t bytes, Name file, std::uint32_t line);
  /// Ranges that were, stay: who pins the same memory again and again has one.
  void unpinned(const void* data);

  /// Makes `use` point to what holds [begin, begin + bytes): an allocation, by its id or, for raw views, by its address; else
  /// a range, which may grow.
  void find(BufferId id, std::uintptr_t begin, std::size_t bytes, MemoryKind kind, std::uint32_t device, Use& use);
  /// A range without an allocation, and which of its bytes are meant, from its beginning.
  struct Part {
    std::uint32_t range;
    std::uint64_t begin;
    std::uint64_t end;
    bool whole;
  };
  std::vector<Part> parts_of(std::uintptr_t begin, std::size_t bytes) const;
  /// Ranges that lie in it as a whole never grow again.
  void end_ranges(std::uintptr_t begin, std::size_t bytes);

  struct Range {
    std::uintptr_t begin;
    std::uintptr_t end;
    std::uint32_t part_of;  ///< itself, or the range that it has become part of
    MemoryKind kind;
    std::uint32_t device;  ///< of device memory
    bool array;            ///< of an array that was not seen to be made
    Name file = none;      ///< with `line`: what has pinned it
    std::uint32_t line = 0;
    bool was_pinned = false;
  };
  const std::vector<Range>& ranges() const { return ranges_; }
  std::uint32_t whole(std::uint32_t range) const;
  /// The ranges that became parts of others, in the order in which they did.
  const std::vector<std::uint32_t>& merged() const { return merged_; }
  /// What the map itself takes.
  std::size_t bytes() const;

 private:
  struct Live {
    std::uintptr_t begin;
    std::uintptr_t end;
    std::uint32_t place;
  };
  struct Pin {
    std::uintptr_t end;
    Name file;
    std::uint32_t line;
  };
  using Order = std::map<std::uintptr_t, std::uint32_t>;  ///< ranges that grow, by where they begin
  /// The first of them that ends behind `begin`.
  Order::const_iterator first_behind(const Order& order, std::uintptr_t begin) const;
  /// Of memory without an array, and of an array that is older than the recording.
  std::uint32_t used(std::uintptr_t begin, std::size_t bytes, MemoryKind kind, std::uint32_t device);
  std::uint32_t unseen(BufferId id, std::uintptr_t begin, std::size_t bytes, MemoryKind kind, std::uint32_t device);
  void grow(std::uint32_t array, std::uintptr_t begin, std::size_t bytes);
  /// What of the pins and of the used ranges `grown` meets becomes a part of it.
  void take_in(Range& grown);

  /// Null where it is not known.
  const Live* live(BufferId id);

  std::unordered_map<BufferId, Live> by_id_;
  std::uint64_t ends_ = 0;
  std::uint64_t shifts_ = 0;
  struct Recent {
    BufferId id = 0;
    const Live* live = nullptr;
  };
  std::array<Recent, 64> recent_;  ///< some of them: what is used now is used again
  std::map<std::uintptr_t, Live> by_address_;
  std::map<std::uintptr_t, Pin> pins_;  ///< by where they begin
  Order used_;
  std::unordered_map<BufferId, std::uint32_t> unseen_;  ///< ranges of arrays that are older than the recording
  Order unseen_at_;                                     ///< the same
  std::vector<Range> ranges_;
  std::vector<std::uint32_t> merged_;
};

}  // namespace weir::recorded
