# weir_joined(result name source...): one file that includes the sources, so that what they share is compiled once; without
# WEIR_JOINED the sources themselves. nvcc reads all headers three times for each file. What joined files call alike, they
# must share.
include_guard()

option(WEIR_JOINED "Compile files that share much as one: cheaper, where all are compiled" OFF)

function(weir_joined result name)
  if(NOT WEIR_JOINED)
    set(${result} ${ARGN} PARENT_SCOPE)
    return()
  endif()
  set(joined ${CMAKE_CURRENT_BINARY_DIR}/joined/${name})
  cmake_path(GET joined PARENT_PATH folder)
  set(includes)
  foreach(source IN LISTS ARGN)
    # Relative to the joined file: clones share what their compiler cache has of it.
    cmake_path(ABSOLUTE_PATH source BASE_DIRECTORY ${CMAKE_CURRENT_SOURCE_DIR})
    cmake_path(RELATIVE_PATH source BASE_DIRECTORY ${folder})
    string(APPEND includes "#include \"${source}\"\n")
  endforeach()
  file(CONFIGURE OUTPUT ${joined} CONTENT "${includes}")
  set(${result} ${joined} PARENT_SCOPE)
endfunction()
