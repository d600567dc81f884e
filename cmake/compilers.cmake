# The compilers that tests of compilation use: the build's own, and the other one of g++ and clang++ where installed.
# weir_compilers lists their names, weir_compiler_<name> is the program.
include_guard()

if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  set(weir_compilers g++ clang++)
else()
  set(weir_compilers clang++ g++)
endif()
list(GET weir_compilers 0 own)
list(GET weir_compilers 1 other)
find_program(WEIR_OTHER_COMPILER NAMES ${other} DOC "A second compiler for tests of compilation")
set(weir_compiler_${own} ${CMAKE_CXX_COMPILER})
set(weir_compiler_${other} ${WEIR_OTHER_COMPILER})
if(NOT WEIR_OTHER_COMPILER)
  list(REMOVE_ITEM weir_compilers ${other})
  message(STATUS "No ${other} found: headers and rejected programs are tested with ${own} alone")
endif()

set(weir_strict_flags -std=c++20 -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wsign-conversion -Werror -I${PROJECT_SOURCE_DIR}/include)
