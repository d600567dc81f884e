// expect: kernel arguments are copied to the device as bytes: pass trivially copyable values
#include <string>

#include <weir/weir.hpp>

int main() {
  weir::Stream stream;
  weir::launch(
      stream, 8, [](std::size_t, const std::string&) {}, std::string("name"));
}
