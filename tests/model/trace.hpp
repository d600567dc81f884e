// An execution as a person reads it.
#pragma once

#include <string>
#include <vector>

#include "graph.hpp"

namespace model {

/// "strand.hpp:120".
std::string describe_place(Where where);
/// One line for each atomic operation, in an order in which they could have happened: thread, place in the source, values.
std::string describe(const Graph& graph, const std::vector<std::string>& names);

}  // namespace model
