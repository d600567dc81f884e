// expect: weir arrays hold types that are aligned to at most 4096 bytes
#include <weir/weir.hpp>

struct alignas(8192) Wide {
  int value;
};

int main() {
  weir::Stream stream;
  auto x = weir::empty<Wide>(stream, 8);
}
