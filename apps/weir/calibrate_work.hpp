// The kernels of `weir calibrate`, behind functions: calibrate_work.cpp has to meet a device compiler.
#pragma once

#include <cstddef>
#include <cstdint>

#include <weir/array.hpp>
#include <weir/stream.hpp>

namespace tool {

/// What simulated devices know the kernels by.
inline constexpr const char* spin_kernel = "calibrate spin";
inline constexpr const char* move_kernel = "calibrate move";

/// Sixteen bytes, which a thread moves at once.
struct alignas(16) Quad {
  std::uint32_t words[4];
};

/// Blocks that last `ns` each by the device's clock.
void spin(weir::StreamRef stream, std::int64_t ns, std::size_t blocks, std::uint32_t threads);
/// Copies the first `count` elements, as a kernel.
void move(weir::StreamRef stream, const weir::Array<Quad>& from, const weir::Array<Quad>& to, std::size_t count,
          std::size_t blocks, std::uint32_t threads);

}  // namespace tool
