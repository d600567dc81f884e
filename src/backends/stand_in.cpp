// Simulated devices that stand for GPUs, by the environment.
#include <cstdlib>
#include <string>
#include <string_view>

#include "backend.hpp"

namespace weir {

std::string meant_by(std::string_view name) {
  const char* const instead = std::getenv("WEIR_AS_CUDA");
  const std::size_t colon = name.find(':');
  if (instead == nullptr || *instead == '\0' || name.substr(0, colon) != "cuda") return std::string(name);
  std::string other(instead);
  if (!std::string_view(other).starts_with("sim:"))
    throw "the environment variable WEIR_AS_CUDA is '" + other + "': it is no simulated device";
  const std::size_t last = other.rfind(':');
  if (last > 3 && other.find_first_not_of("0123456789", last + 1) == std::string::npos)
    throw "the environment variable WEIR_AS_CUDA is '" + other + "': name the profile alone, " + other.substr(0, last) +
        ", whose second device stands for cuda:1";
  if (colon != std::string_view::npos && name.substr(colon) != ":0") other += name.substr(colon);
  return other;
}

}  // namespace weir
