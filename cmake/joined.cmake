# weir_joined(result name source...): one file that includes the sources, so that what they share is compiled once; without
# WEIR_JOINED the sources themselves. nvcc reads all headers three times for each file. What joined files call alike, they
# must share.
include_guard()

option(WEIR_JOINED "Compile files that share much as one: cheaper, where all are compiled" OFF)
# scripts/mutants wants an object for each source.
option(WEIR_JOINED_LIBRARY "With WEIR_JOINED: the library's sources, too, and not the tests' alone" ON)

# Sources of the library that are compiled by themselves: others know their objects, they have options of their own, or what they have
# for themselves has the name of what another file of their folder has for itself.
set(alone_in_library registry core/graphs/kernels nvtx
    ranks/sockets core/graphs/file_save core/graphs/file_load core/graphs/file_read core/memory/readback core/memory/dlpack_export core/memory/dlpack_import
    core/ranks/pieces cpu/streams/queue_collective cpu/streams/run_record cpu/workers/run_parallel cpu/workers/worker_pool
    trace/report trace/slow_copies trace/write_perfetto)
set(alone_in_cuda collectives/nccl_ranks collectives/rank_boxes collectives/rank_transport collectives/reduce_boxes
    graphs/late_replay streams/queue_copy streams/queue_staged)
set(alone_in_tools scenario/kernels scenario/run[a-z_]* trace_files/read)
set(alone_in_tests cpu/parallel_loop_test cpu/scheduling_test check/random_test check/reference_graphs foreign/injected_test interop/dlpack_import_test ipc/events_test
    pages/readme_test core/block_device_test nccl/revoke
    predict/clock_collectives_test predict/clock_functions_test predict/clock_polling_test predict/clock_questions_test
    predict/clock_test predict/limits_test predict/model_graphs_test predict/model_test predict/older_devices_test
    ranks/memory_test ranks/mpi_test ranks/survivors_test
    recording/files_test recording/loops_test recording/mistakes_test recording/recorder_test recording/replays_test
    seeds/numba_streams_events_test seeds/warp_concurrency_test seeds/warp_graphs_test seeds/warp_synchronization_test
    stress/captured stress/interpret stress/machine_test stress/mock trace/rates_test trace/ties_test
    # One of their folder each.
    allocations/[a-z_]+ checker/[a-z_]+ model/[a-z_]+)

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

# weir_joined_groups(list name group...): adds joined/<name>/<group>.cpp to the list, of the caller's sources_of_<group>.
function(weir_joined_groups list name)
  list(REMOVE_DUPLICATES ARGN)
  foreach(group IN LISTS ARGN)
    weir_joined(joined ${name}/${group}.cpp ${sources_of_${group}})
    list(APPEND ${list} ${joined})
  endforeach()
  set(${list} ${${list}} PARENT_SCOPE)
endfunction()

# weir_joined_folders(list name alone...): the sources of each folder become one, joined/<name>/<folder>.cpp, but for those whose path
# ends in one of `alone`.
function(weir_joined_folders list name)
  if(NOT WEIR_JOINED OR NOT (WEIR_JOINED_LIBRARY OR name STREQUAL "tests"))
    return()
  endif()
  set(all)
  set(folders)
  foreach(source IN LISTS ${list})
    cmake_path(ABSOLUTE_PATH source BASE_DIRECTORY ${CMAKE_CURRENT_SOURCE_DIR})
    cmake_path(RELATIVE_PATH source BASE_DIRECTORY ${PROJECT_SOURCE_DIR} OUTPUT_VARIABLE path)
    set(joins TRUE)
    foreach(end IN LISTS ARGN)
      if(path MATCHES "/${end}\\.cpp$")
        set(joins FALSE)
      endif()
    endforeach()
    if(joins AND source MATCHES "\\.cpp$")
      cmake_path(GET path PARENT_PATH folder)
      string(REPLACE "/" "_" folder "${folder}")
      list(APPEND folders ${folder})
      list(APPEND sources_of_${folder} ${source})
    else()
      list(APPEND all ${source})
    endif()
  endforeach()
  weir_joined_groups(all ${name} ${folders})
  set(${list} ${all} PARENT_SCOPE)
endfunction()
