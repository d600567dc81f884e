// Places by Name: an array, for Names are small numbers.
#pragma once

#include <cstdint>
#include <vector>

#include <weir/recording.hpp>

namespace weir::scenario {

// Of the words that recordings share with the library, those of recordings.
using recorded::Access;
using recorded::Buffer;
using recorded::Command;
using recorded::Cost;
using recorded::Device;
using recorded::Event;
using recorded::Name;
using recorded::Node;
using recorded::none;
using recorded::Op;
using recorded::Owner;
using recorded::Stream;
using recorded::StreamKind;
using recorded::Target;
using recorded::Use;

class PlaceOf {
 public:
  std::uint32_t find(recorded::Name name) const { return name < places_.size() ? places_[name] : recorded::none; }
  void set(recorded::Name name, std::uint32_t place) {
    if (name >= places_.size()) places_.resize(name + std::size_t{1}, recorded::none);
    places_[name] = place;
  }
  std::size_t bytes() const { return places_.capacity() * sizeof(std::uint32_t); }

 private:
  std::vector<std::uint32_t> places_;
};

}  // namespace weir::scenario
