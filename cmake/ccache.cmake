# Compiles through ccache where it is installed, so that a second build of the same sources, in this folder or in another
# clone, takes what the first one made. CMAKE_<LANG>_COMPILER_LAUNCHER, if it is set, is left as it is.
include_guard()

option(WEIR_CCACHE "Compile through ccache where it is installed" ${PROJECT_IS_TOP_LEVEL})
if(NOT WEIR_CCACHE)
  return()
endif()
find_program(WEIR_CCACHE_PROGRAM ccache DOC "The compiler cache")
mark_as_advanced(WEIR_CCACHE_PROGRAM)
if(NOT WEIR_CCACHE_PROGRAM)
  return()
endif()

# Paths below the sources are made relative, and the build's folder is not part of the key: clones share their entries.
# Precompiled headers need the sloppiness named. The depend mode believes the compiler's list of included files instead
# of preprocessing everything once more, which costs a tenth of a build that finds nothing.
set(weir_ccache env CCACHE_BASEDIR=${PROJECT_SOURCE_DIR} CCACHE_NOHASHDIR=1 CCACHE_DEPEND=1
                CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime ${WEIR_CCACHE_PROGRAM})
foreach(language CXX CUDA)
  if(NOT DEFINED CMAKE_${language}_COMPILER_LAUNCHER)
    set(CMAKE_${language}_COMPILER_LAUNCHER ${weir_ccache})
  endif()
endforeach()
