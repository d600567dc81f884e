// The CPU backend: real asynchronous streams on any machine.
#pragma once

namespace weir {
class Backend;
namespace cpu {
Backend& backend();
}
}  // namespace weir
