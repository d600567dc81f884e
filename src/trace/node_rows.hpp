// Rows for nodes of graphs: branches run side by side, and in a row of Perfetto's nothing overlaps.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include <weir/trace.hpp>

namespace weir::trace {

class NodeRows {
 public:
  /// The row of a node of a launch in that stream: the first one of the stream that is free. `made(row)` is called for new ones.
  template <class Made>
  std::uint32_t of(std::uint32_t stream, const NodeRun& node, Made&& made) {
    std::vector<Row>& rows = rows_[stream];
    for (Row& row : rows) {
      if (row.until > node.begin) continue;
      row.until = node.end;
      return row.number;
    }
    rows.push_back({count_, node.end});
    made(count_);
    return count_++;
  }

 private:
  struct Row {
    std::uint32_t number;
    std::int64_t until;
  };
  std::map<std::uint32_t, std::vector<Row>> rows_;  ///< of each stream
  std::uint32_t count_ = 0;
};

}  // namespace weir::trace
