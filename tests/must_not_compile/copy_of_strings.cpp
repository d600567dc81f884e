// expect: weir::copy moves trivially copyable types only
#include <string>
#include <vector>

#include <weir/weir.hpp>

int main() {
  std::vector<std::string> from(8), to(8);
  weir::copy(to, from);
}
