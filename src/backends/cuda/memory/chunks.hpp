// Work of which several host threads take a chunk each.
#pragma once

namespace weir::cuda {

/// Thread rule: any number of threads.
class Chunks {
 public:
  /// Takes a chunk and moves it. False if none can be moved now.
  virtual bool move_one() noexcept = 0;
  /// Each chunk was moved, or is somebody's who moves it.
  virtual bool all_taken() const noexcept = 0;

 protected:
  ~Chunks() = default;
};

}  // namespace weir::cuda
