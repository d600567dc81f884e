// Checked builds (WEIR_CHECKED): all units of a program are, or none. docs/checking.md tells what is checked.
#pragma once

#include <cstddef>
#include <cstdint>

#if defined(WEIR_CHECKED) && WEIR_CHECKED
#define WEIR_CHECKS_INDICES 1
#else
#define WEIR_CHECKS_INDICES 0
#endif

#if !defined(__CUDA_ARCH__)
namespace weir::detail {

// The library defines one of the two: units that differ from it do not link, and the linker names what they lack.
#if WEIR_CHECKS_INDICES
extern const bool library_was_built_with_WEIR_CHECKED;
__attribute__((used)) inline const bool* const checked_as_the_library = &library_was_built_with_WEIR_CHECKED;

/// The kernel's argument of that number; 0: no argument of a kernel.
[[noreturn]] void refuse_element(std::uint32_t argument, std::size_t dimension, std::size_t index, std::size_t size);
[[noreturn]] void refuse_part(std::uint32_t argument, std::size_t lo, std::size_t hi, std::size_t size);
#else
extern const bool library_was_built_without_WEIR_CHECKED;
__attribute__((used)) inline const bool* const unchecked_as_the_library = &library_was_built_without_WEIR_CHECKED;
#endif

}  // namespace weir::detail
#endif
