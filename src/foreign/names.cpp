// The texts of a timeline, and names as people write them.
#include "foreign/names.hpp"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <memory>

#include <cxxabi.h>

#include <weir/trace.hpp>

namespace weir::foreign {

std::string call_name(std::string_view name) {
  const std::size_t version = name.rfind("_v");
  const bool has_version = version != std::string_view::npos && version + 2 < name.size() &&
                           name.find_first_not_of("0123456789", version + 2) == std::string_view::npos;
  return std::string(name.substr(0, has_version ? version : name.size()));
}

std::string kernel_name(const std::string& name) {
  if (!name.starts_with("_Z")) return name;  // "b" is a mangled name of a type
  int status = 0;
  const std::unique_ptr<char, void (*)(void*)> plain(abi::__cxa_demangle(name.c_str(), nullptr, nullptr, &status),
                                                     std::free);
  std::string made = status == 0 && plain != nullptr ? plain.get() : name;
  // The parameters stand behind the last parenthesis that is opened outside of all others.
  if (made.empty() || made.back() != ')') return made;
  std::size_t depth = 0;
  for (std::size_t i = made.size(); i-- > 0;) {
    if (made[i] == ')') ++depth;
    if (made[i] == '(' && --depth == 0) {
      made.resize(i);
      break;
    }
  }
  // What a template returns stands before its name.
  if (made.starts_with("void ")) made.erase(0, 5);
  return made;
}

std::uint32_t Names::text(const std::string& words) {
  const auto [at, is_new] = own_.try_emplace(words, static_cast<std::uint32_t>(texts_.size()));
  if (is_new) texts_.push_back(words);
  return at->second;
}

std::uint32_t Names::kernel(std::uint32_t place) {
  if (place >= texts_.size()) return trace::none;
  const auto [at, is_new] = kernels_.try_emplace(place, 0);
  if (is_new) at->second = text(kernel_name(texts_[place]));
  return at->second;
}

bool allocates(const Names& names, std::uint32_t call) {
  static constexpr std::array<std::string_view, 16> calls = {
      "cudaFree",   "cudaFreeArray",  "cudaFreeHost",    "cudaHostAlloc",     "cudaHostRegister", "cudaHostUnregister",
      "cudaMalloc", "cudaMallocHost", "cudaMallocPitch", "cudaMallocManaged", "cuMemAlloc",       "cuMemAllocHost",
      "cuMemFree",  "cuMemFreeHost",  "cuMemHostAlloc",  "cuMemAllocPitch"};
  return std::find(calls.begin(), calls.end(), call_name(names.at(call))) != calls.end();
}

}  // namespace weir::foreign
