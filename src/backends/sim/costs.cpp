#include "backends/sim/costs.hpp"

#include <cmath>
#include <cstdlib>
#include <fstream>
#include <set>
#include <sstream>
#include <string_view>
#include <vector>

#include "backends/sim/flat_json.hpp"

namespace weir::sim {

std::string_view without_scope(std::string_view name) {
  const std::size_t template_begin = name.find('<');
  const std::size_t scope = name.substr(0, template_begin).rfind("::");
  return scope == std::string_view::npos ? name : name.substr(scope + 2);
}

const model::KernelCost* Costs::find(std::string_view launch, std::string_view functor) const {
  for (const auto* all : {&said_, &read_}) {
    if (all->empty()) continue;
    for (const std::string_view name : {launch, functor, without_scope(functor)}) {
      if (name.empty()) continue;
      const auto found = all->find(name);
      if (found != all->end()) return &found->second;
    }
  }
  return nullptr;
}

const model::KernelCost* Costs::find(SourceLocation where) const {
  if (!where || (said_.empty() && read_.empty())) return nullptr;
  const std::string_view path = where.file_name();
  std::string line(path.substr(path.rfind('/') + 1));
  return find(line.append(":").append(std::to_string(where.line())), {});
}

namespace {

constexpr const char* members = "costs have ns, block_ns, bytes, blocks, threads and shared_bytes";

void take(model::KernelCost& cost, std::string_view field, double value, const std::string& path) {
  const auto whole = [&] {
    if (value != std::floor(value) || value > 1e15) throw path + ": it is no whole number";
    return static_cast<std::uint64_t>(value);
  };
  const auto one_or_more = [&] {
    if (value == 0) throw path + ": a kernel has one at least";
    return whole();
  };
  if (!(value >= 0)) throw path + ": it is below 0";
  if (field == "ns") {
    cost.ns = value;
  } else if (field == "block_ns") {
    cost.block_ns = value;
  } else if (field == "bytes") {
    cost.bytes = value;
  } else if (field == "blocks") {
    cost.blocks = one_or_more();
  } else if (field == "threads") {
    cost.threads = one_or_more();
  } else if (field == "shared_bytes") {
    cost.shared_bytes = whole();
  } else {
    throw path + ": " + members;
  }
}

}  // namespace

void Costs::read(std::string_view text) {
  struct Named {
    std::string place;
    std::string name;
    model::KernelCost cost;
    bool says = false;
  };
  std::vector<Named> found;
  read_flat_json(text, [&](const Leaf& leaf) {
    const std::string path(leaf.path);
    constexpr std::string_view kernels = "kernels.";
    if (leaf.is_empty && path == "kernels") return;
    const std::size_t dot = path.rfind('.');
    if (leaf.is_empty && path.starts_with(kernels)) throw path + ": it is empty";
    if (!path.starts_with(kernels) || dot < kernels.size() || dot == std::string::npos)
      throw path + ": a file of costs has the list \"kernels\" alone";
    const std::string place = path.substr(kernels.size(), dot - kernels.size());
    if (place.find('.') != std::string::npos) throw path.substr(0, dot) + ": " + members;
    const std::string field = path.substr(dot + 1);
    if (found.empty() || found.back().place != place) found.push_back({.place = place, .name = {}, .cost = {}});
    if (field == "name") {
      if (!leaf.is_text || leaf.text.empty()) throw path + ": it is no name";
      found.back().name = leaf.text;
    } else {
      if (!leaf.is_number) throw path + ": it is no number";
      take(found.back().cost, field, leaf.number, path);
      found.back().says = true;
    }
  });
  std::set<std::string_view> names;
  for (const Named& one : found) {
    if (one.name.empty()) throw "kernels." + one.place + ": it has no name";
    if (!one.says) throw "kernels." + one.place + ": it says nothing of how long " + one.name + " lasts";
    if (!names.insert(one.name).second) throw "kernels." + one.place + ".name: " + one.name + " is there twice";
  }
  for (const Named& one : found) read_[one.name] = one.cost;
}

void Costs::read_environment() {
  const char* path = std::getenv("WEIR_SIM_COSTS");
  if (path == nullptr || *path == '\0') return;
  const std::string head = "WEIR_SIM_COSTS: " + std::string(path) + ": ";
  std::ostringstream text;
  // The stream fails for directories, and for files of no bytes.
  if (!(text << std::ifstream(path).rdbuf())) throw head + "it cannot be read, or is empty";
  try {
    read(text.str());
  } catch (const std::string& wrong) {
    throw head + wrong;
  }
}

}  // namespace weir::sim
