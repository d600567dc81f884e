// expect: weir::receive writes: give it out(y)
#include <weir/collectives.hpp>
#include <weir/weir.hpp>

void get(weir::StreamRef stream, const weir::Communicator& ranks, weir::Array<float>& x) {
  weir::receive(stream, ranks, weir::in(x), 0);
}

int main() {}
