# Each file of examples/ is a program of its own, and a test.
weir_sources(sources ${PROJECT_SOURCE_DIR}/examples/*.cpp)
foreach(source IN LISTS sources)
  cmake_path(GET source STEM name)
  add_executable(example_${name} ${source})
  weir_target(example_${name})
  target_compile_options(example_${name} PRIVATE ${WEIR_PROGRAM_FLAGS})
  target_link_libraries(example_${name} PRIVATE weir::weir)
  if(NOT name STREQUAL "10_errors")  # whose kernels throw: the CPU's alone
    weir_kernel_sources(example_${name} ${source})
  endif()
  if(WEIR_BUILD_TESTS)
    add_test(NAME example.${name} COMMAND example_${name})
    set_tests_properties(example.${name} PROPERTIES TIMEOUT 120 PROCESSORS 2)
  endif()
  list(APPEND examples ${name})
endforeach()

# What the hazard checker says of them, on the CPU and without a sanitizer, which takes planted races for its own.
find_program(WEIR_PYTHON python3 DOC "For tests of scripts")
mark_as_advanced(WEIR_PYTHON)
if(WEIR_BUILD_TESTS AND WEIR_PYTHON AND TARGET weir_tool AND NOT WEIR_WITH_CUDA AND NOT WEIR_SANITIZE)
  add_test(NAME example.checked
           COMMAND ${WEIR_PYTHON} ${PROJECT_SOURCE_DIR}/tests/scripts/examples_test.py ${CMAKE_RUNTIME_OUTPUT_DIRECTORY} ${examples})
  set_tests_properties(example.checked PROPERTIES TIMEOUT 300 PROCESSORS 2)
endif()
