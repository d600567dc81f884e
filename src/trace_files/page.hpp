// Timelines that were written as pages: trace/page/columns.hpp has the format of the data in them.
#pragma once

#include <cstddef>
#include <string_view>

#include <weir/trace.hpp>

namespace weir::trace {

/// Checks all that it holds. Throws scenario::Fault with the part that is wrong, as where it takes more than `limit` bytes.
Timeline read_page(std::string_view page, std::size_t limit);

}  // namespace weir::trace
