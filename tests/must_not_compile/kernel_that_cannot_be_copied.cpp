// expect: a kernel is copied to its device: make the functor copyable
#include <memory>

#include <weir/weir.hpp>

struct Owner {
  std::unique_ptr<float> value;
  void operator()(std::size_t) const {}
};

int main() {
  weir::Stream stream;
  weir::launch(stream, 8, Owner{});
}
