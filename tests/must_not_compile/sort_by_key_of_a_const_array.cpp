// expect: weir::sort_by_key needs arrays that can be written
#include <weir/weir.hpp>

void order(weir::StreamRef stream, const weir::Slice<int>& keys, const weir::Slice<const int>& values) {
  weir::sort_by_key(stream, keys, values);
}

int main() {}
