// std::chrono's durations and clocks. In libstdc++ they come with <mutex>; <chrono> brings streams and calendars besides, which
// nobody here needs, and which take a fifth of what weir.hpp takes to read: more in g++ 13, where <format> comes along.
#pragma once

#include <mutex>

#if !defined(__GLIBCXX__)
#include <chrono>
#endif
