// Lists that grow without moving and without doubling, and know what they take.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

namespace weir::recorded {

/// What a recording takes, and may take. `take` throws Error(out_of_memory).
class Budget {
 public:
  explicit Budget(std::size_t limit) : limit_(limit) {}
  void take(std::size_t bytes);
  void give_back(std::size_t bytes) { used_ -= bytes; }
  std::size_t used() const { return used_; }
  std::size_t limit() const { return limit_; }

 private:
  std::size_t used_ = 0;
  std::size_t limit_;
};

template <class T>
class Chunks {
 public:
  static constexpr std::size_t chunk = 512;

  std::size_t size() const { return size_; }
  const T& operator[](std::size_t i) const { return chunks_[i / chunk][i % chunk]; }
  T& operator[](std::size_t i) { return chunks_[i / chunk][i % chunk]; }

  void push(const T& value, Budget& budget) { add(budget) = value; }
  /// One more, to be written.
  T& add(Budget& budget) {
    if (next_ == end_) grow(budget);
    ++size_;
    return *next_++;
  }

 private:
  void grow(Budget& budget) {
    budget.take(chunk * sizeof(T) + sizeof(void*));
    chunks_.push_back(std::make_unique<T[]>(chunk));
    next_ = chunks_.back().get();
    end_ = next_ + chunk;
  }

  std::vector<std::unique_ptr<T[]>> chunks_;
  std::size_t size_ = 0;
  T* next_ = nullptr;
  T* end_ = nullptr;  ///< of the last chunk
};

/// Places by what is there: open addressing, half full at most. `Hash(place)` and `Same(place)` are the caller's.
class PlaceTable {
 public:
  template <class Same>
  std::uint32_t find(std::size_t hash, const Same& same) const {
    if (slots_.empty()) return free_;
    for (std::size_t i = hash & (slots_.size() - 1); slots_[i] != free_; i = (i + 1) & (slots_.size() - 1)) {
      if (same(slots_[i])) return slots_[i];
    }
    return free_;
  }
  /// Room for one more; `hash_of(place)` finds the hashes of those that are there.
  template <class HashOf>
  void reserve(Budget& budget, const HashOf& hash_of) {
    if (2 * (count_ + 1) <= slots_.size()) return;
    const std::size_t wanted = slots_.empty() ? 64 : 2 * slots_.size();
    budget.take(wanted * sizeof(std::uint32_t));
    std::vector<std::uint32_t> old(wanted, free_);
    old.swap(slots_);
    for (const std::uint32_t place : old) {
      if (place != free_) put(hash_of(place), place);
    }
    budget.give_back(old.size() * sizeof(std::uint32_t));
  }
  void insert(std::size_t hash, std::uint32_t place) {
    put(hash, place);
    ++count_;
  }

 private:
  static constexpr std::uint32_t free_ = 0xffffffff;
  void put(std::size_t hash, std::uint32_t place) {
    std::size_t i = hash & (slots_.size() - 1);
    while (slots_[i] != free_) i = (i + 1) & (slots_.size() - 1);
    slots_[i] = place;
  }

  std::vector<std::uint32_t> slots_;
  std::size_t count_ = 0;
};

}  // namespace weir::recorded
