// Dense memory for a collective's slices, and wider integers for those that NCCL does not add.
#pragma once

#include <cstddef>
#include <utility>
#include <vector>

#include <weir/collectives.hpp>

#include "backends/cuda/collectives/nccl_library.hpp"
#include "collective_call.hpp"

namespace weir::cuda {

class CudaQueue;

/// How NCCL is to see elements.
struct NcclElements {
  NcclType type;
  std::size_t bytes;        ///< of one of them
  std::size_t per_element;  ///< how many make an element of the user's
};
NcclElements nccl_elements(const detail::CollectiveOperand& operand, bool reduced);

/// Whether NCCL cannot take an operand as it lies.
bool needs_staging(const detail::CollectiveOperand& operand, bool reduced);

/// In lanes: brought in before NCCL's group, taken out behind it.
class Staging {
 public:
  explicit Staging(SourceLocation where) : where_(where) {}
  ~Staging();
  Staging(const Staging&) = delete;
  Staging& operator=(const Staging&) = delete;

  /// Where NCCL reads and writes what the rank has of a call that moves something.
  std::pair<void*, void*> bring_in(CudaQueue& lane, const detail::CollectiveShare& share);
  /// Where NCCL reads the operand.
  void* bring(CudaQueue& lane, const detail::CollectiveOperand& operand, bool reduced);
  /// Where NCCL writes it.
  void* room_for(CudaQueue& lane, const detail::CollectiveOperand& operand, bool reduced);
  void take_out();

 private:
  struct Result {
    CudaQueue* lane;
    detail::CollectiveOperand operand;
    void* from;
    bool reduced;
  };
  void* allocate(CudaQueue& lane, std::size_t bytes);
  void copy(CudaQueue& lane, void* to, const Layout& to_layout, const void* from, const Layout& from_layout);

  const SourceLocation where_;
  std::vector<std::pair<CudaQueue*, void*>> memory_;
  std::vector<Result> results_;
};

}  // namespace weir::cuda
