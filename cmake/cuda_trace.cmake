# The library that `weir trace --cuda` has the CUDA driver load into programs. It needs CUPTI's header, and links nothing of CUDA's:
# libcupti is opened in the program. Whatever the program brings, nothing of it is used, and nothing of this is seen.
set(weir_cuda_trace_headers /usr/local/cuda /opt/cuda $ENV{CUDA_HOME} $ENV{CUDA_PATH})
find_path(WEIR_CUPTI_INCLUDE cupti.h HINTS ${CUDAToolkit_INCLUDE_DIRS} PATHS ${weir_cuda_trace_headers}
          PATH_SUFFIXES include extras/CUPTI/include DOC "Where cupti.h is, for weir trace --cuda")
mark_as_advanced(WEIR_CUPTI_INCLUDE)

# From records to timelines: of this alone tests need no CUPTI.
weir_sources(foreign_sources foreign/*.cpp)
weir_joined_folders(foreign_sources foreign)
add_library(weir_foreign STATIC EXCLUDE_FROM_ALL ${foreign_sources})
weir_target(weir_foreign)
target_include_directories(weir_foreign PUBLIC ${PROJECT_SOURCE_DIR}/include ${CMAKE_CURRENT_SOURCE_DIR})
set_target_properties(weir_foreign PROPERTIES POSITION_INDEPENDENT_CODE ON CXX_VISIBILITY_PRESET hidden
                                              VISIBILITY_INLINES_HIDDEN ON)

# From the tool's folder to the library's, installed and in a build.
file(RELATIVE_PATH weir_cuda_trace_place ${CMAKE_INSTALL_FULL_BINDIR}
     ${CMAKE_INSTALL_FULL_LIBDIR}/weir/libweir_cuda_trace.so)
set(weir_cuda_trace_place ${weir_cuda_trace_place} PARENT_SCOPE)  # the tool's folder
if(NOT WEIR_CUPTI_INCLUDE)
  message(STATUS "weir trace --cuda is left out: there is no cupti.h")
  return()
endif()

weir_sources(cuda_trace_sources foreign/cupti/*.cpp trace/page/*.cpp)
list(APPEND cuda_trace_sources trace/best_rates.cpp trace/collectives.cpp trace/keeper.cpp trace/numbers.cpp trace/process.cpp trace/reasons.cpp trace/report.cpp
     trace/save.cpp trace/slow_copies.cpp trace/texts.cpp trace/words.cpp trace/write_json.cpp trace/write_perfetto.cpp recording/file_output.cpp
     json/text.cpp core/error.cpp core/shared.cpp ${page_source})
weir_joined_folders(cuda_trace_sources cuda_trace ${alone_in_library})
add_library(weir_cuda_trace MODULE ${cuda_trace_sources})
weir_target(weir_cuda_trace)
add_dependencies(weir_cuda_trace weir)  # both are made of the page
target_include_directories(weir_cuda_trace SYSTEM PRIVATE ${WEIR_CUPTI_INCLUDE})
target_link_libraries(weir_cuda_trace PRIVATE weir_foreign ZLIB::ZLIB Threads::Threads ${CMAKE_DL_LIBS})
set(weir_cuda_trace_exports ${CMAKE_CURRENT_SOURCE_DIR}/foreign/cupti/exports.map)
target_link_options(weir_cuda_trace PRIVATE -Wl,--version-script=${weir_cuda_trace_exports} -Wl,-z,nodelete)
set_property(TARGET weir_cuda_trace PROPERTY LINK_DEPENDS ${weir_cuda_trace_exports})
if(NOT WEIR_SANITIZE)
  target_link_options(weir_cuda_trace PRIVATE -static-libstdc++ -static-libgcc -Wl,--no-undefined)
endif()
cmake_path(GET weir_cuda_trace_place PARENT_PATH weir_cuda_trace_folder)
set(weir_cuda_trace_bin ${PROJECT_BINARY_DIR})
if(CMAKE_RUNTIME_OUTPUT_DIRECTORY)
  set(weir_cuda_trace_bin ${CMAKE_RUNTIME_OUTPUT_DIRECTORY})
endif()
set_target_properties(weir_cuda_trace PROPERTIES CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON
                                                 LIBRARY_OUTPUT_DIRECTORY ${weir_cuda_trace_bin}/${weir_cuda_trace_folder})
install(TARGETS weir_cuda_trace LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}/weir)
