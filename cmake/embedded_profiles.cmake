# Profiles of simulated devices, as a source of their texts: the library needs no files to predict.
include_guard()

function(embedded_profiles result folder)
  file(GLOB files CONFIGURE_DEPENDS ${folder}/*.json)
  set(entries)
  set(count 0)
  foreach(file IN LISTS files)
    cmake_path(GET file STEM LAST_ONLY name)
    file(READ ${file} text)
    string(APPEND entries "    {\"${name}\", R\"json(${text})json\"},\n")
    math(EXPR count "${count} + 1")
  endforeach()
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${files})
  set(source ${CMAKE_CURRENT_BINARY_DIR}/embedded_profiles.cpp)
  file(CONFIGURE OUTPUT ${source} @ONLY CONTENT [[// Made from the files of src/backends/sim/profiles.
#include "backends/sim/profile_file.hpp"

namespace weir::sim {

const Embedded embedded_profiles[] = {
@entries@};
const std::size_t embedded_count = @count@;

}  // namespace weir::sim
]])
  set(${result} ${source} PARENT_SCOPE)
endfunction()
