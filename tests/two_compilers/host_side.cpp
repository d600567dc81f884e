// Compiled by the host's compiler, always.
#include "shared.hpp"

void launch_in_host_file(weir::StreamRef stream, weir::Array<int>& x) {
  weir::launch(stream, x.size(), AddTwo{}, weir::inout(x));
}
