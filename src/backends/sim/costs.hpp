// What kernels cost on simulated devices: as programs and files say.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include <weir/source_location.hpp>

#include "backends/sim/model/kernel_task.hpp"

namespace weir::sim {

/// By the kernel's name: the launch's own, the functor's, or the functor's without what it is in. What the program says goes
/// before what a file says.
class Costs {
 public:
  void set(std::string_view kernel, const model::KernelCost& cost) { said_[std::string(kernel)] = cost; }
  const model::KernelCost* find(std::string_view launch, std::string_view functor) const;
  /// Of what has no name: by its line, "pipeline.cpp:41".
  const model::KernelCost* find(SourceLocation where) const;
  /// {"kernels": [{"name": "Saxpy", "block_ns": 20000, "blocks": 132}, ...]}. Throws std::string: what is wrong.
  void read(std::string_view text);
  /// The file that WEIR_SIM_COSTS names, if it does. Throws std::string: what is wrong.
  void read_environment();

 private:
  std::map<std::string, model::KernelCost, std::less<>> said_, read_;
};

/// "Saxpy" of "app::Saxpy"; what templates are made with stays.
std::string_view without_scope(std::string_view name);

}  // namespace weir::sim
