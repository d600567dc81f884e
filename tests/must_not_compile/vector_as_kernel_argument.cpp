// expect: kernel arguments are copied to the device as bytes: pass trivially copyable values
#include <vector>

#include <weir/weir.hpp>

struct Sum {
  void operator()(std::size_t, const std::vector<float>&) const {}
};

int main() {
  weir::Stream stream;
  std::vector<float> values(8);
  weir::launch(stream, 8, Sum{}, values);
}
