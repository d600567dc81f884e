# What every target of Weir shares: the language, the warnings, and where a folder's sources are found.
include_guard()

# Users of the library never see these flags: they are private, and only there when Weir is the project being built.
function(weir_target target)
  target_compile_features(${target} PRIVATE cxx_std_20)
  set_target_properties(${target} PROPERTIES CXX_EXTENSIONS OFF)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
    # A precompiled header that ccache gives back is older than the headers of a fresh clone.
    target_compile_options(${target} PRIVATE "$<$<COMPILE_LANGUAGE:CXX>:SHELL:-Xclang -fno-pch-timestamp>")
  endif()
  if(PROJECT_IS_TOP_LEVEL OR WEIR_WERROR)
    # nvcc's own code for the host does not pass -Wpedantic.
    target_compile_options(${target} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:-Wall -Wextra -Wpedantic>
                                             $<$<COMPILE_LANG_AND_ID:CXX,Clang>:-Wthread-safety>
                                             $<$<COMPILE_LANGUAGE:CUDA>:-Xcompiler=-Wall,-Wextra>)
    if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
      # g++ 12 sees overlapping copies in "literal" + std::string where there are none (GCC bug 105651).
      target_compile_options(${target} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:-Wno-restrict>
                                               $<$<COMPILE_LANGUAGE:CUDA>:-Xcompiler=-Wno-restrict>)
    endif()
  endif()
  set(by_itself weir weir_tools weir_foreign weir_cuda_trace weir_fake_cuda)
  if(WEIR_JOINED AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND (WEIR_JOINED_LIBRARY OR NOT target IN_LIST by_itself))
    # To g++ a source that another one includes is a header, whose classes others could have, too.
    target_compile_options(${target} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:-Wno-subobject-linkage>)
  endif()
  if(WEIR_WERROR)
    target_compile_options(${target} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:-Werror>
                                             $<$<COMPILE_LANGUAGE:CUDA>:-Werror=all-warnings>)
  endif()
endfunction()

# For sources that take long to optimise and nothing to run, such as the parsers of command lines: daily builds leave them as
# they are. Without the precompiled header of the others, which is optimised. Call it in the directory of their target.
function(weir_unoptimised)
  set_source_files_properties(${ARGN} PROPERTIES COMPILE_OPTIONS "$<$<CONFIG:RelWithDebInfo>:-O0>"
                                                 SKIP_PRECOMPILE_HEADERS ON)
endfunction()

# The sources that match, re-read by the build itself when a file comes or goes.
function(weir_sources result)
  file(GLOB found CONFIGURE_DEPENDS ${ARGN})
  set(${result} ${found} PARENT_SCOPE)
endfunction()
