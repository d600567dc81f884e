# `cpack -G DEB` in a build folder makes a Debian package of the installed tree.
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME weir)
set(CPACK_PACKAGE_VENDOR "The Weir developers")
set(CPACK_PACKAGE_CONTACT "The Weir developers <weir@localhost>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "${PROJECT_DESCRIPTION}")
set(CPACK_PACKAGE_DESCRIPTION
    "A C++20 library and a tool for asynchronous, multi-stream, multi-device programs: one source runs on GPUs and,
with the same ordering rules, on CPUs. This package holds the tool, the library and its development files.")
set(CPACK_RESOURCE_FILE_LICENSE ${PROJECT_SOURCE_DIR}/LICENSE)
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION libdevel)
# Programs that link the static library need what it was built on; these packages bring the shared libraries too. With
# dpkg-shlibdeps and file at hand, the dependencies also state versions.
find_program(WEIR_SHLIBDEPS dpkg-shlibdeps)
find_program(WEIR_FILE file)
mark_as_advanced(WEIR_SHLIBDEPS WEIR_FILE)
if(WEIR_SHLIBDEPS AND WEIR_FILE)
  set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
endif()
set(CPACK_DEBIAN_PACKAGE_DEPENDS "libhwloc-dev, zlib1g-dev, pkg-config")
include(CPack)
