// The texts of a timeline, and names as people write them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace weir::foreign {

/// "cudaFree_v3020" as it is called: "cudaFree".
std::string call_name(std::string_view name);
/// A kernel's name as it is written: without what a linker adds, without parameters.
std::string kernel_name(const std::string& name);

class Names {
 public:
  /// These keep their places.
  explicit Names(std::vector<std::string> texts) : texts_(std::move(texts)) {}

  std::uint32_t text(const std::string& words);
  /// For the text at a place as CUPTI gave it.
  std::uint32_t kernel(std::uint32_t place);
  /// The text at a place; empty for none.
  std::string_view at(std::uint32_t place) const { return place < texts_.size() ? texts_[place] : std::string_view(); }
  std::vector<std::string> take() { return std::move(texts_); }

 private:
  std::vector<std::string> texts_;
  std::unordered_map<std::string, std::uint32_t> own_;
  std::unordered_map<std::uint32_t, std::uint32_t> kernels_;
};

/// Whether a call of that name allocates or frees memory, and may wait for a device.
bool allocates(const Names& names, std::uint32_t call);

}  // namespace weir::foreign
