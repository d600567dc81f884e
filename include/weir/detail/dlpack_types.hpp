// The C structs of DLPack 1.x, by which array libraries hand each other memory. Written from the specification.
#pragma once

#include <complex>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace weir::dlpack {

// Names and order are the specification's: other languages read these bytes. A program that has <dlpack/dlpack.h> may use
// its types instead; every function here takes both.

inline constexpr std::uint32_t major_version = 1;
inline constexpr std::uint32_t minor_version = 0;

struct DLPackVersion {
  std::uint32_t major;
  std::uint32_t minor;
};

enum DLDeviceType : std::int32_t {
  kDLCPU = 1,
  kDLCUDA = 2,
  kDLCUDAHost = 3,  ///< pinned host memory
};

struct DLDevice {
  DLDeviceType device_type;
  std::int32_t device_id;  ///< 0 for host memory
};

enum DLDataTypeCode : std::uint8_t {
  kDLInt = 0,
  kDLUInt = 1,
  kDLFloat = 2,
  kDLOpaqueHandle = 3,
  kDLBfloat = 4,
  kDLComplex = 5,
  kDLBool = 6,
};

struct DLDataType {
  std::uint8_t code;
  std::uint8_t bits;
  std::uint16_t lanes;
  friend constexpr bool operator==(const DLDataType&, const DLDataType&) = default;
};

struct DLTensor {
  void* data;
  DLDevice device;
  std::int32_t ndim;
  DLDataType dtype;
  std::int64_t* shape;
  std::int64_t* strides;  ///< in elements; null: row-major and dense
  std::uint64_t byte_offset;
};

/// The struct of DLPack before 1.0, which most Python libraries still take and give.
struct DLManagedTensor {
  DLTensor dl_tensor;
  void* manager_ctx;
  void (*deleter)(DLManagedTensor* self);
};

inline constexpr std::uint64_t flag_read_only = 1;
inline constexpr std::uint64_t flag_is_copied = 2;

struct DLManagedTensorVersioned {
  DLPackVersion version;
  void* manager_ctx;
  void (*deleter)(DLManagedTensorVersioned* self);
  std::uint64_t flags;
  DLTensor dl_tensor;
};

static_assert(sizeof(void*) != 8 ||
              (sizeof(DLTensor) == 48 && offsetof(DLTensor, ndim) == 16 && offsetof(DLTensor, shape) == 24 &&
               offsetof(DLManagedTensor, deleter) == 56 && offsetof(DLManagedTensorVersioned, flags) == 24 &&
               offsetof(DLManagedTensorVersioned, dl_tensor) == 32));

/// These structs, and those of <dlpack/dlpack.h>.
template <class M>
concept managed_versioned = sizeof(M) == sizeof(DLManagedTensorVersioned) && requires(M& m) {
  { m.version.major } -> std::convertible_to<std::uint32_t>;
  { m.flags } -> std::convertible_to<std::uint64_t>;
  m.deleter(&m);
};
template <class M>
concept managed_unversioned = sizeof(M) == sizeof(DLManagedTensor) && requires(M& m) {
  m.dl_tensor.byte_offset;
  m.deleter(&m);
}
&&!requires(M & m) { m.flags; };
template <class M>
concept managed = managed_versioned<M> || managed_unversioned<M>;

/// The type of an element in DLPack's terms. Specialise it for your own: `template <> inline constexpr
/// weir::dlpack::DLDataType weir::dlpack::data_type<__half> = {weir::dlpack::kDLFloat, 16, 1};`
template <class T>
inline constexpr DLDataType data_type = {kDLOpaqueHandle, 0, 0};
template <std::integral T>
inline constexpr DLDataType data_type<T> = {std::is_signed_v<T> ? kDLInt : kDLUInt, 8 * sizeof(T), 1};
template <>
inline constexpr DLDataType data_type<bool> = {kDLBool, 8, 1};
template <std::floating_point T>
inline constexpr DLDataType data_type<T> = {kDLFloat, 8 * sizeof(T), 1};
template <std::floating_point T>
inline constexpr DLDataType data_type<std::complex<T>> = {kDLComplex, 16 * sizeof(T), 1};

}  // namespace weir::dlpack
