// What commands of streams come behind: CUDA's rules of order, from what was asked for.
#pragma once

#include <cstdint>
#include <map>
#include <unordered_map>
#include <vector>

#include "foreign/activity.hpp"

namespace weir::foreign {

/// Commands are told in the order of the calls. Streams and commands are places in the timeline.
class Order {
 public:
  struct StreamRules {
    std::uint32_t context = 0;
    bool blocking = true;
    bool legacy = false;
  };
  explicit Order(std::vector<StreamRules> streams);

  /// What the next command comes behind. It gets this place.
  std::vector<trace::Dependency> add(std::uint32_t place, std::uint32_t stream, const Activity& command);
  /// The record that a wait, or the host, waits for; none where it is not known.
  std::uint32_t record_of(const Activity& wait) const;
  /// A number for an event, from 1 on.
  std::uint32_t event(const Activity& activity);

 private:
  using Behind = std::vector<trace::Dependency>;
  void behind_stream(std::uint32_t place, std::uint32_t stream, const Activity& command, Behind& behind);
  void behind_default_streams(std::uint32_t stream, Behind& behind);
  static void add_to(Behind& behind, std::uint32_t command, trace::Tie tie);

  struct State {
    std::uint32_t last = trace::none;           ///< its last command
    std::uint32_t behind_legacy = trace::none;  ///< that of the legacy stream that it comes behind already
    bool fresh = false;                         ///< it has commands that the legacy stream does not come behind yet
    std::uint32_t graph = 0;                    ///< the launch whose nodes are coming
    std::uint32_t before_graph = trace::none;
    std::uint64_t graph_ends = 0;
  };
  struct OfContext {
    std::uint32_t legacy = trace::none;  ///< a stream
    std::vector<std::uint32_t> fresh;    ///< blocking streams
  };
  using EventKey = std::pair<std::uint32_t, std::uint32_t>;

  std::vector<StreamRules> rules_;
  std::vector<State> states_;
  std::map<std::uint32_t, OfContext> contexts_;
  std::unordered_map<std::uint64_t, std::uint32_t> records_;  ///< by their own numbers
  std::map<EventKey, std::uint32_t> last_records_;            ///< by event
  std::map<EventKey, std::uint32_t> events_;
};

}  // namespace weir::foreign
