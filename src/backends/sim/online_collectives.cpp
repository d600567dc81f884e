// Collectives of a program that runs: which parts belong together.
#include <string_view>

#include "backends/sim/online_model.hpp"

namespace weir::sim {

void OnlineModel::meet(const Collective& part, model::Call& call) {
  std::uint64_t number = part.number;
  int from = -1, to = -1;
  const bool pair = number == 0;
  if (pair) {
    const bool sends = std::string_view(part.call) == "send";
    from = sends ? part.rank : part.peer;
    to = sends ? part.peer : part.rank;
    number = ++pairs_[{part.communicator, from, to, sends}];
  } else {
    call.chain = chains_.emplace(std::pair(part.communicator, part.rank), static_cast<std::uint32_t>(chains_.size()))
                     .first->second;
  }
  const auto [found, fresh] = meetings_.try_emplace({part.communicator, number, from, to}, Meeting{next_meeting_, 0});
  if (fresh) ++next_meeting_;
  call.target = found->second.number;
  call.parts = pair ? 2 : static_cast<std::uint32_t>(part.size);
  call.unit = part.unit;
  if (++found->second.called == call.parts) meetings_.erase(found);
}

}  // namespace weir::sim
