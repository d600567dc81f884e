// expect: an argument of this kernel does not convert to the type that the kernel declares
#include <weir/weir.hpp>

struct Look {
  WEIR_KERNEL void operator()(std::size_t, const float*) const {}
};

int main() {
  weir::Stream stream;
  weir::launch(stream, 8, Look{}, 2.0f);
}
