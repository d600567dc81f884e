# weir_kernel_sources(target file...): marks sources of a target that launch kernels on GPUs. Where this Weir has its CUDA
# backend they are compiled by nvcc, as CUDA, for the host and for the GPUs of CMAKE_CUDA_ARCHITECTURES; elsewhere nothing
# changes, and the same files are plain C++. Call it in the directory of the target; the project must have enabled the
# language: project(... LANGUAGES CXX CUDA).
include_guard()

function(weir_kernel_sources target)
  if(NOT WEIR_WITH_CUDA)
    return()
  endif()
  if(NOT CMAKE_CUDA_COMPILER)
    message(FATAL_ERROR "weir_kernel_sources(${target} ...): enable the language first: project(... LANGUAGES CXX CUDA)")
  endif()
  # The standard by hand: CMake before 3.26 does not know that nvcc has C++20.
  set_source_files_properties(${ARGN} TARGET_DIRECTORY ${target} PROPERTIES
                              LANGUAGE CUDA COMPILE_OPTIONS "-std=c++20;--extended-lambda;--expt-relaxed-constexpr")
  set_target_properties(${target} PROPERTIES CUDA_RUNTIME_LIBRARY Static)
endfunction()
