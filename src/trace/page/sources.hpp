// The page's sources, embedded by cmake/embed.cmake.
#pragma once

#include <span>
#include <string_view>

namespace weir::trace {

extern const std::string_view page_frame;  ///< HTML with marks, "@DATA@", in the order in which page.cpp fills them in
extern const std::string_view page_style;
extern const std::span<const std::string_view> page_scripts;  ///< to be joined

}  // namespace weir::trace
