# The command-line tool: the program bin/weir.
find_package(CLI11 REQUIRED)
find_package(fmt REQUIRED)
find_package(nlohmann_json REQUIRED)

file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/apps/weir/*.cpp)
set(kernels ${PROJECT_SOURCE_DIR}/apps/weir/work.cpp ${PROJECT_SOURCE_DIR}/apps/weir/checks_work.cpp
            ${PROJECT_SOURCE_DIR}/apps/weir/calibrate_work.cpp)
list(REMOVE_ITEM sources ${kernels})
if(WEIR_WITH_CUDA)
  weir_joined(kernels tool_kernels.cpp ${kernels})
endif()
add_executable(weir_tool ${sources} ${kernels})
weir_target(weir_tool)
target_compile_options(weir_tool PRIVATE ${WEIR_PROGRAM_FLAGS})
weir_unoptimised(${PROJECT_SOURCE_DIR}/apps/weir/command_line.cpp)
if("-O0" IN_LIST WEIR_PROGRAM_FLAGS)
  # What the demos compute takes three to five times as long unoptimised, with a sanitizer. Without the precompiled header of the
  # others, which is not optimised.
  foreach(name heat normalize overlap prefetch vadd work)
    set_source_files_properties(${PROJECT_SOURCE_DIR}/apps/weir/${name}.cpp PROPERTIES COMPILE_OPTIONS -O1
                                                                                       SKIP_PRECOMPILE_HEADERS ON)
  endforeach()
endif()
set_target_properties(weir_tool PROPERTIES OUTPUT_NAME weir)
target_include_directories(weir_tool PRIVATE ${PROJECT_SOURCE_DIR}/apps/weir)
target_compile_definitions(weir_tool PRIVATE WEIR_VERSION="${PROJECT_VERSION}"
                           WEIR_CUDA_TRACE_PLACE="${weir_cuda_trace_place}")
target_link_libraries(weir_tool PRIVATE weir::tools weir::weir CLI11::CLI11 fmt::fmt nlohmann_json::nlohmann_json)
option(WEIR_TOOL_MPI "Demos of the tool run under mpirun, if weir::mpi is built: the tool needs MPI's library then" ON)
if(TARGET weir_mpi AND WEIR_TOOL_MPI)
  target_link_libraries(weir_tool PRIVATE weir::mpi)
  target_compile_definitions(weir_tool PRIVATE WEIR_TOOL_WITH_MPI)
endif()
# All kernels of the demos, of selftest and of calibrate.
weir_kernel_sources(weir_tool ${kernels})
if(NOT WEIR_WITH_CUDA)
  target_precompile_headers(weir_tool PRIVATE <fmt/format.h> <weir/weir.hpp>)
endif()

if(TARGET weir_cuda_trace)
  add_dependencies(weir_tool weir_cuda_trace)  # it is started with the tool alone
endif()

install(TARGETS weir_tool RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
install(FILES ${PROJECT_SOURCE_DIR}/docs/man/weir.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
