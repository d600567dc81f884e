# Programs that the library must reject with its own sentence. Included, it adds the tests; as a script, it is one.
#   cmake -DCOMPILER=... -DFLAGS=... -DSOURCE=... -P must_not_compile.cmake
# SOURCE starts with lines `// expect: <part of a sentence>`; the compiler's output must contain each of them, and
# nothing of lines `// not expect: <part of a sentence>`.

if(NOT CMAKE_SCRIPT_MODE_FILE)
  # All of them include the same header: each compiler reads it once, in a test that the others need.
  set(folder ${CMAKE_CURRENT_BINARY_DIR}/must_not_compile)
  set(flags -std=c++20 -I${PROJECT_SOURCE_DIR}/include)
  weir_sources(sources ${CMAKE_CURRENT_SOURCE_DIR}/must_not_compile/*.cpp)
  foreach(compiler IN LISTS weir_compilers)
    file(CONFIGURE OUTPUT ${folder}/${compiler}/header.hpp CONTENT "#include <weir/weir.hpp>\n")
    if(compiler STREQUAL "clang++")
      set(precompiled ${folder}/${compiler}/header.pch)
      set(use "-include-pch;${precompiled}")
    else()
      set(precompiled ${folder}/${compiler}/header.hpp.gch)
      set(use "-include;${folder}/${compiler}/header.hpp")
    endif()
    add_test(NAME must_not_compile.header.${compiler}
             COMMAND ${weir_compiler_${compiler}} ${flags} -x c++-header ${folder}/${compiler}/header.hpp -o ${precompiled})
    set_tests_properties(must_not_compile.header.${compiler} PROPERTIES TIMEOUT 120 FIXTURES_SETUP header.${compiler})
    foreach(source IN LISTS sources)
      cmake_path(GET source STEM name)
      set(test must_not_compile.${name}.${compiler})
      add_test(NAME ${test}
               COMMAND ${CMAKE_COMMAND} -DCOMPILER=${weir_compiler_${compiler}} "-DFLAGS=${flags};${use}"
                       -DSOURCE=${source} -P ${PROJECT_SOURCE_DIR}/cmake/must_not_compile.cmake)
      set_tests_properties(${test} PROPERTIES TIMEOUT 120 FIXTURES_REQUIRED header.${compiler})
    endforeach()
  endforeach()
  return()
endif()

file(STRINGS ${SOURCE} expectations REGEX "^// expect: ")
if(NOT expectations)
  message(FATAL_ERROR "${SOURCE} does not say what it expects: begin it with `// expect: <part of a sentence>`")
endif()

set(ENV{LC_ALL} C)
execute_process(COMMAND ${COMPILER} ${FLAGS} -fsyntax-only ${SOURCE}
                RESULT_VARIABLE status OUTPUT_VARIABLE output ERROR_VARIABLE output)
if(status EQUAL 0)
  message(FATAL_ERROR "${SOURCE} compiles, but must not")
endif()
foreach(expectation IN LISTS expectations)
  string(REGEX REPLACE "^// expect: *" "" sentence "${expectation}")
  string(STRIP "${sentence}" sentence)
  string(FIND "${output}" "${sentence}" found)
  if(found EQUAL -1)
    message(FATAL_ERROR "${SOURCE} is rejected, but not with\n  ${sentence}\nThe compiler said:\n${output}")
  endif()
endforeach()
file(STRINGS ${SOURCE} exclusions REGEX "^// not expect: ")
foreach(exclusion IN LISTS exclusions)
  string(REGEX REPLACE "^// not expect: *" "" sentence "${exclusion}")
  string(STRIP "${sentence}" sentence)
  string(FIND "${output}" "${sentence}" found)
  if(NOT found EQUAL -1)
    message(FATAL_ERROR "${SOURCE} is rejected with\n  ${sentence}\nwhich is not what is wrong with it. The compiler said:\n${output}")
  endif()
endforeach()
