// The concepts of ranges and the access to them. In libstdc++ they come with <span>; <ranges> brings the views besides, which
// nobody here needs, and which take a tenth of what all of Weir takes to compile.
#pragma once

#include <span>

#if !defined(__GLIBCXX__)
#include <ranges>
#endif
