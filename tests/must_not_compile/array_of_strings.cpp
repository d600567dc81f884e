// expect: weir arrays hold trivially copyable types: they are moved as bytes
#include <string>

#include <weir/weir.hpp>

int main() {
  weir::Stream stream;
  auto x = weir::empty<std::string>(stream, 8);
}
