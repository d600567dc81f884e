// What torch_test.py calls by ctypes: Weir work on a stream that PyTorch made, and tensors both ways by DLPack.
#include <cstdint>
#include <cstdio>
#include <exception>
#include <string>

#include <weir/cuda_interop.hpp>
#include <weir/dlpack.hpp>
#include <weir/weir.hpp>

namespace {

struct Scale {
  WEIR_KERNEL void operator()(std::size_t i, float factor, weir::View<float> x) const { x[i] *= factor; }
};

thread_local std::string last_error;

/// 0, or 1 and a text behind weir_probe_error().
template <class Work>
int answer(Work&& work) {
  try {
    work();
    return 0;
  } catch (const std::exception& error) {
    last_error = error.what();
    return 1;
  }
}

weir::Device gpu(int index) { return weir::device("cuda:" + std::to_string(index)); }

}  // namespace

extern "C" {

const char* weir_probe_error() { return last_error.c_str(); }

/// x *= factor by a Weir kernel on the caller's stream. Does not wait.
int weir_probe_scale(void* stream, int device, float* x, std::size_t n, float factor) {
  return answer([&] {
    const weir::Stream s = weir::cuda::wrap_stream(gpu(device), static_cast<CUstream_st*>(stream));
    const std::size_t size[] = {n};
    const std::ptrdiff_t stride[] = {1};
    weir::launch(s, n, Scale{}, factor, weir::inout(weir::View<float, 1>(x, size, stride)));
  });
}

/// Takes the tensor over and scales it on a stream of Weir's that waits for the caller's. Does not wait.
int weir_probe_scale_tensor(weir::dlpack::DLManagedTensor* tensor, void* stream, int device, float factor) {
  return answer([&] {
    const weir::Stream theirs = weir::cuda::wrap_stream(gpu(device), static_cast<CUstream_st*>(stream));
    const weir::Stream s(gpu(device), {.blocking = false});
    s.wait(theirs);
    const auto x = weir::from_dlpack<float>(tensor, s);
    weir::launch(s, x.size(), Scale{}, factor, weir::inout(x));
    theirs.wait(s);
  });
}

/// n elements of `value`, written after a busy while on a stream of Weir's; `stream` waits for them. The array itself is gone
/// on return. `versioned`: a DLManagedTensorVersioned.
void* weir_probe_tensor(int device, std::size_t n, float value, std::int64_t stream, int versioned) {
  void* tensor = nullptr;
  answer([&] {
    const weir::Stream s(gpu(device), {.blocking = false});
    const auto x = weir::full(s, n, 1.0f);
    for (int i = 0; i < 200; ++i) weir::launch(s, n, Scale{}, 1.0f, weir::inout(x));
    weir::launch(s, n, Scale{}, value, weir::inout(x));
    tensor = versioned != 0 ? static_cast<void*>(weir::to_dlpack(x, stream))
                            : weir::to_dlpack<weir::dlpack::DLManagedTensor>(x, stream);
  });
  return tensor;
}

/// The same in host memory.
void* weir_probe_host_tensor(std::size_t rows, std::size_t columns, int versioned) {
  void* tensor = nullptr;
  answer([&] {
    const auto x = weir::zeros<float>(weir::host, {rows, columns});
    for (std::size_t i = 0; i < x.size(); ++i) x.data()[i] = static_cast<float>(i);
    const auto turned = x.transposed();
    tensor = versioned != 0 ? static_cast<void*>(weir::to_dlpack(turned))
                            : weir::to_dlpack<weir::dlpack::DLManagedTensor>(turned);
  });
  return tensor;
}

/// Bytes in use in the device's pool.
std::size_t weir_probe_used(int device) {
  std::size_t used = 0;
  answer([&] {
    gpu(device).synchronize();
    used = weir::default_pool(gpu(device)).statistics().used;
  });
  return used;
}

}  // extern "C"
