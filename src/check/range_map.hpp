// Values of disjoint ranges of bytes, in order; neighbours with equal values are one.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <utility>
#include <vector>

namespace weir::check {

using Byte64 = std::uint64_t;

/// Sorted lists of some hundred ranges each, so that one of many costs a short move, and all of them are read in order.
template <class Value>
class RangeMap {
 public:
  struct Range {
    Byte64 begin;
    Byte64 end;
    Value value;
  };

  bool empty() const { return chunks_.empty(); }
  std::size_t size() const {
    std::size_t all = 0;
    for (const auto& chunk : chunks_) all += chunk.size();
    return all;
  }
  std::size_t bytes() const {
    std::size_t all = chunks_.capacity() * sizeof(Chunk);
    for (const auto& chunk : chunks_) all += chunk.capacity() * sizeof(Range);
    return all;
  }
  void clear() { chunks_.clear(); }

  /// `call(begin, end, value)` for the parts of ranges that lie within; `call` may not change the map.
  template <class Call>
  void each(Byte64 begin, Byte64 end, const Call& call) const {
    for (Place at = find(begin); at.chunk < chunks_.size(); ++at.chunk, at.index = 0) {
      const Chunk& chunk = chunks_[at.chunk];
      for (; at.index < chunk.size(); ++at.index) {
        const Range& range = chunk[at.index];
        if (range.begin >= end) return;
        call(std::max(begin, range.begin), std::min(end, range.end), range.value);
      }
    }
  }
  template <class Call>
  void each(const Call& call) const {
    for (const Chunk& chunk : chunks_) {
      for (const Range& range : chunk) call(range.begin, range.end, range.value);
    }
  }

  void erase(Byte64 begin, Byte64 end) {
    if (chunks_.empty() || begin >= end) return;
    replace(begin, end, nullptr, 0);
  }

  /// All of the range has this value now.
  void assign(Byte64 begin, Byte64 end, Value value) {
    if (begin >= end) return;
    if (Range* const same = exactly(begin, end)) {
      same->value = std::move(value);
      if (!alone()) merge_around(begin, end);
      return;
    }
    Range made{begin, end, std::move(value)};
    replace(begin, end, &made, 1);
    merge_around(begin, end);
  }

  /// `change(value)` for every part of the range; where there was none, of `Value()`.
  template <class Change>
  void update(Byte64 begin, Byte64 end, const Change& change) {
    if (begin >= end) return;
    if (Range* const same = exactly(begin, end)) {
      change(same->value);
      if (!alone()) merge_around(begin, end);
      return;
    }
    std::vector<Range> made;
    Byte64 at = begin;
    each(begin, end, [&](Byte64 from, Byte64 to, const Value& value) {
      if (at < from) add(made, {at, from, changed(Value(), change)});
      add(made, {from, to, changed(value, change)});
      at = to;
    });
    if (at < end) add(made, {at, end, changed(Value(), change)});
    replace(begin, end, made.data(), made.size());
    merge_around(begin, end);
  }

 private:
  using Chunk = std::vector<Range>;
  static constexpr std::size_t most = 256;
  struct Place {
    std::size_t chunk;
    std::size_t index;
  };

  template <class Change>
  static Value changed(Value value, const Change& change) {
    change(value);
    return value;
  }
  static void add(std::vector<Range>& list, Range range) {
    if (!list.empty() && list.back().end == range.begin && list.back().value == range.value) {
      list.back().end = range.end;
    } else {
      list.push_back(std::move(range));
    }
  }

  /// Where no neighbour may be equal.
  bool alone() const { return chunks_.size() == 1 && chunks_.front().size() == 1; }
  Range* exactly(Byte64 begin, Byte64 end) {
    const Place at = find(begin);
    if (at.chunk == chunks_.size()) return nullptr;
    Range& range = chunks_[at.chunk][at.index];
    return range.begin == begin && range.end == end ? &range : nullptr;
  }

  /// The first range that ends after `begin`.
  Place find(Byte64 begin) const {
    if (!chunks_.empty() && chunks_.front().front().end > begin) return {0, 0};
    const auto chunk = chunks_.size() == 1
                           ? (chunks_[0].back().end > begin ? chunks_.begin() : chunks_.end())
                           : std::partition_point(chunks_.begin(), chunks_.end(),
                                                  [&](const Chunk& one) { return one.back().end <= begin; });
    if (chunk == chunks_.end()) return {chunks_.size(), 0};
    const auto range =
        std::partition_point(chunk->begin(), chunk->end(), [&](const Range& one) { return one.end <= begin; });
    return {static_cast<std::size_t>(chunk - chunks_.begin()), static_cast<std::size_t>(range - chunk->begin())};
  }

  /// What lies within goes, what sticks out stays, and `count` ranges come in its place.
  void replace(Byte64 begin, Byte64 end, Range* with, std::size_t count) {
    Place at = find(begin);
    if (at.chunk == chunks_.size()) {
      append(with, count);
      return;
    }
    std::vector<Range> right;
    Chunk* chunk = &chunks_[at.chunk];
    if ((*chunk)[at.index].begin < begin) {
      Range& first = (*chunk)[at.index];
      if (first.end > end) right.push_back({end, first.end, first.value});
      first.end = begin;
      ++at.index;
    }
    // Whole chunks go at once.
    std::size_t last = at.chunk;
    while (last + 1 < chunks_.size() && chunks_[last + 1].front().begin < end) ++last;
    for (std::size_t c = at.chunk; c <= last; ++c) {
      Chunk& one = chunks_[c];
      const std::size_t from = c == at.chunk ? at.index : 0;
      std::size_t to = from;
      while (to < one.size() && one[to].end <= end) ++to;
      if (to < one.size() && one[to].begin < end) one[to].begin = end;
      if (c == at.chunk) {
        const std::size_t fits = std::min(count, to - from);
        std::move(with, with + fits, one.begin() + static_cast<std::ptrdiff_t>(from));
        one.erase(one.begin() + static_cast<std::ptrdiff_t>(from + fits),
                  one.begin() + static_cast<std::ptrdiff_t>(to));
        make_room(one, one.size() + (count - fits) + right.size());
        one.insert(one.begin() + static_cast<std::ptrdiff_t>(from + fits), std::make_move_iterator(with + fits),
                   std::make_move_iterator(with + count));
        one.insert(one.begin() + static_cast<std::ptrdiff_t>(from + count), right.begin(), right.end());
      } else {
        one.erase(one.begin(), one.begin() + static_cast<std::ptrdiff_t>(to));
      }
    }
    for (std::size_t c = last + 1; c-- > at.chunk;) {
      if (chunks_[c].empty()) {
        chunks_.erase(chunks_.begin() + static_cast<std::ptrdiff_t>(c));
      } else if (chunks_[c].size() > most) {
        split(c);
      }
    }
  }
  void append(Range* with, std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) {
      if (chunks_.empty() || chunks_.back().size() >= most) chunks_.emplace_back();
      make_room(chunks_.back(), chunks_.back().size() + 1);
      chunks_.back().push_back(std::move(with[i]));
    }
  }
  /// There are many chunks: doubling would leave a third of their memory unused.
  static void make_room(Chunk& chunk, std::size_t size) {
    if (chunk.capacity() < size) chunk.reserve(size + size / 8 + 1);
  }
  void split(std::size_t c) {
    Chunk all = std::move(chunks_[c]);
    const std::size_t pieces = (all.size() + most / 2 - 1) / (most / 2), each = (all.size() + pieces - 1) / pieces;
    std::vector<Chunk> made;
    for (std::size_t i = 0; i < all.size(); i += each) {
      const auto from = all.begin() + static_cast<std::ptrdiff_t>(i);
      const auto to = all.begin() + static_cast<std::ptrdiff_t>(std::min(all.size(), i + each));
      made.emplace_back(std::make_move_iterator(from), std::make_move_iterator(to));
    }
    chunks_[c] = std::move(made.front());
    chunks_.insert(chunks_.begin() + static_cast<std::ptrdiff_t>(c + 1), std::make_move_iterator(made.begin() + 1),
                   std::make_move_iterator(made.end()));
  }

  void merge_around(Byte64 begin, Byte64 end) {
    if (begin > 0) merge_at(begin);
    merge_at(end);
  }
  /// The ranges left and right of this place.
  void merge_at(Byte64 place) {
    const Place left = find(place - 1);
    if (left.chunk == chunks_.size()) return;
    Range& before = chunks_[left.chunk][left.index];
    if (before.end != place) return;
    Place right{left.chunk, left.index + 1};
    if (right.index == chunks_[left.chunk].size()) right = {left.chunk + 1, 0};
    if (right.chunk == chunks_.size()) return;
    Chunk& chunk = chunks_[right.chunk];
    if (chunk[right.index].begin != place || !(chunk[right.index].value == before.value)) return;
    before.end = chunk[right.index].end;
    chunk.erase(chunk.begin() + static_cast<std::ptrdiff_t>(right.index));
    if (chunk.empty()) chunks_.erase(chunks_.begin() + static_cast<std::ptrdiff_t>(right.chunk));
  }

  std::vector<Chunk> chunks_;
};

}  // namespace weir::check
