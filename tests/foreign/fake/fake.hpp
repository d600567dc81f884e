// What the stand-in for libcupti has beside CUPTI's functions.
#pragma once

#include <cstdint>

/// What its clock shows, always.
inline constexpr std::uint64_t fake_cupti_start = 1000000;

extern "C" {
/// A record happens. It begins with its kind.
void fake_cupti_add(const void* record);
int fake_cupti_nvtx_attached();
}
