// expect: from 'void' to
#include <weir/weir.hpp>

struct Nothing {
  WEIR_KERNEL void operator()(std::size_t) const {}
};

int main() {
  weir::Stream stream;
  weir::Node node = weir::launch(stream, 8, Nothing{});
}
