# The installed tree: libraries, headers, the CMake package weir, weir.pc and weir-tools.pc.
include(CMakePackageConfigHelpers)
set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/weir)

install(TARGETS weir EXPORT weir_targets)
if(WEIR_BUILD_TOOLS)
  install(TARGETS weir_tools EXPORT weir_targets)
endif()
if(TARGET weir_mpi)
  install(TARGETS weir_mpi EXPORT weir_mpi_targets)
  install(EXPORT weir_mpi_targets FILE weirMpiTargets.cmake NAMESPACE weir:: DESTINATION ${package_dir})
endif()
install(DIRECTORY include/weir DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(FILES LICENSE README.md CHANGELOG.md DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(DIRECTORY docs/ DESTINATION ${CMAKE_INSTALL_DOCDIR}/docs PATTERN man EXCLUDE)
install(DIRECTORY examples DESTINATION ${CMAKE_INSTALL_DOCDIR})

install(EXPORT weir_targets FILE weirTargets.cmake NAMESPACE weir:: DESTINATION ${package_dir})
configure_package_config_file(cmake/weirConfig.cmake.in ${PROJECT_BINARY_DIR}/weirConfig.cmake
                              INSTALL_DESTINATION ${package_dir})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/weirConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/weirConfig.cmake ${PROJECT_BINARY_DIR}/weirConfigVersion.cmake
              cmake/weir_kernel_sources.cmake
        DESTINATION ${package_dir})

# A static library needs its dependencies named by everyone who links it.
get_target_property(library_type weir TYPE)
if(library_type STREQUAL "STATIC_LIBRARY")
  set(pc_requires "Requires: hwloc zlib")
else()
  set(pc_requires "Requires.private: hwloc zlib")
endif()
set(pc_libs "-L\${libdir} -lweir -pthread")
if(WEIR_WITH_CUDA AND library_type STREQUAL "STATIC_LIBRARY")
  string(APPEND pc_libs " -L${CUDAToolkit_LIBRARY_DIR} -lcudart_static -ldl -lrt")
endif()
file(RELATIVE_PATH pc_prefix /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
string(REGEX REPLACE "/$" "" pc_prefix ${pc_prefix})
configure_file(cmake/weir.pc.in ${PROJECT_BINARY_DIR}/weir.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/weir.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
if(WEIR_BUILD_TOOLS)
  configure_file(cmake/weir-tools.pc.in ${PROJECT_BINARY_DIR}/weir-tools.pc @ONLY)
  install(FILES ${PROJECT_BINARY_DIR}/weir-tools.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
endif()
