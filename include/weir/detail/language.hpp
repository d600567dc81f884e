// Weir is written in C++20. An older language ends here with one sentence.
#pragma once

#if __cplusplus < 202002L
#error "Weir needs C++20: compile with -std=c++20 (with CMake: target_compile_features(my_program PRIVATE cxx_std_20))"
#include <weir/needs-c++20>  // nothing of that name exists: compilers stop there instead of reading on
#endif
