# weir_kernel_sources(target file...): marks sources of a target that launch kernels on GPUs. Where this Weir has its CUDA
# backend they are compiled by nvcc, as CUDA, for the host and for the GPUs of CMAKE_CUDA_ARCHITECTURES; elsewhere nothing
# changes, and the same files are plain C++. Call it in the directory of the target; the project must have enabled the
# language: project(... LANGUAGES CXX CUDA). It does not matter how Weir came there: find_package, add_subdirectory or
# FetchContent.
include_guard()

function(weir_kernel_sources target)
  # The library says so itself: variables of a subdirectory's are not seen outside of it.
  get_target_property(with_cuda weir::weir WEIR_WITH_CUDA)
  if(NOT with_cuda)
    return()
  endif()
  # Not CMAKE_CUDA_COMPILER, which is in the cache although the language was enabled in Weir's subdirectory alone.
  if(NOT CMAKE_CUDA_COMPILER_ID)
    message(FATAL_ERROR "weir_kernel_sources(${target} ...): enable the language first: project(... LANGUAGES CXX CUDA)")
  endif()
  # The standard by hand: CMake before 3.26 does not know that nvcc has C++20.
  set_source_files_properties(${ARGN} TARGET_DIRECTORY ${target} PROPERTIES
                              LANGUAGE CUDA COMPILE_OPTIONS "-std=c++20;--extended-lambda;--expt-relaxed-constexpr")
  set_target_properties(${target} PROPERTIES CUDA_RUNTIME_LIBRARY Static)
endfunction()
