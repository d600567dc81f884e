// A rank whose other ranks are in other processes: its streams wait for a word, and all else is the core's and a link's.
#pragma once

#include <string_view>

#include "backend.hpp"

namespace weir::cuda {

class RankTransport final : public detail::CollectiveTransport {
 public:
  std::string_view name() const override { return "pinned memory"; }
  detail::TransportTraits traits() const override {
    return {.by_elements = false, .captured = false, .halves = true, .reaches_memory = false};
  }
  void run(detail::CollectiveCall&, std::size_t) override {}  // the core does it
  void let_go(detail::CollectivePart& part) noexcept override;
};

/// Tells the part's call when its stream has come to it, which is a wait there by now.
void tell_arrival(detail::CollectivePart& part);

}  // namespace weir::cuda
