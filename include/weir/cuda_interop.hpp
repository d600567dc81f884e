// CUDA's own stream types to and from Weir's: cudaStream_t, CUstream, cuda::stream_ref. Needs no CUDA header.
#pragma once

#include <concepts>

#include <weir/device.hpp>
#include <weir/error.hpp>
#include <weir/stream.hpp>

struct CUstream_st;  // CUDA's: cudaStream_t and CUstream are pointers to it

namespace weir::cuda {

/// The cudaStream_t of a stream, for foreign calls and for libcu++'s stream_ref; the stream goes on owning it.
/// Work that is enqueued there directly is in the stream's order like its own, but Weir knows nothing of what it touches:
/// weir::external declares that. Throws not_supported for a stream of another backend.
inline CUstream_st* native(StreamRef stream, SourceLocation where = SourceLocation::current()) {
  if (stream.device(where).backend() != "cuda") {
    throw Error(Errc::not_supported, "weir::cuda::native", "stream '" + stream.name(where) + "'",
                "it is on " + stream.device(where).name() + ", which has no CUDA streams", where);
  }
  return static_cast<CUstream_st*>(stream.native(where));
}

/// A Weir stream for a foreign cudaStream_t, or for what has one: cuda::stream_ref, cuda::stream. The caller keeps it alive.
/// Null, cudaStreamLegacy and cudaStreamPerThread mean CUDA's default streams.
inline Stream wrap_stream(Device device, CUstream_st* stream, SourceLocation where = SourceLocation::current()) {
  return weir::wrap_stream(device, stream, where);
}
template <class Owner>
  requires requires(const Owner& owner) {
    { owner.get() } -> std::convertible_to<CUstream_st*>;
  }
Stream wrap_stream(Device device, const Owner& stream, SourceLocation where = SourceLocation::current()) {
  return weir::wrap_stream(device, static_cast<CUstream_st*>(stream.get()), where);
}

}  // namespace weir::cuda
