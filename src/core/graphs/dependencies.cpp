// Cycles and inferred dependencies.
#include "core/graphs/dependencies.hpp"

#include <algorithm>
#include <unordered_map>

#include "core/graphs/graph_state.hpp"

namespace weir::detail {

namespace {

constexpr std::size_t word_bits = 64;

const std::byte* end_of(const Region& region) {
  return static_cast<const std::byte*>(region.begin) + region.extent_bytes();
}

bool conflict(const Region& a, const Region& b) {
  if (a.access == Access::read && b.access == Access::read) return false;
  if (a.extent_bytes() == 0 || b.extent_bytes() == 0) return false;
  return static_cast<const std::byte*>(a.begin) < end_of(b) && static_cast<const std::byte*>(b.begin) < end_of(a);
}

/// What a node uses: conditional and child graph nodes use what their nodes use. An Alloc or Free is a write.
std::vector<Region> uses_of(const GraphForm& form, std::uint32_t node) {
  std::vector<Region> uses;
  const FormNode& one = form.nodes[node];
  if (one.payload) {
    uses = one.payload->uses();
    if (const auto* alloc = std::get_if<Alloc>(&one.payload->op())) {
      uses.push_back({alloc->data, alloc->bytes, 1, 0, alloc->buffer, Access::write});
    }
    if (const auto* free = std::get_if<Free>(&one.payload->op())) {
      uses.push_back({free->data, free->bytes, 1, 0, free->buffer, Access::write});
    }
  }
  if (one.kind != NodeKind::graph && one.kind != NodeKind::conditional) return uses;
  for (std::uint32_t i = node + 1; i < form.nodes.size(); ++i) {
    if (form.nodes[i].parent != static_cast<std::int32_t>(node)) continue;
    const std::vector<Region> inner = uses_of(form, i);
    uses.insert(uses.end(), inner.begin(), inner.end());
  }
  return uses;
}

}  // namespace

bool Ancestors::has(std::uint32_t node, std::uint32_t ancestor) const {
  if (node >= sets_.size() || ancestor / word_bits >= sets_[node].size()) return false;
  return (sets_[node][ancestor / word_bits] >> (ancestor % word_bits) & 1) != 0;
}

void Ancestors::add(std::uint32_t node, std::uint32_t before) {
  const std::size_t most = std::max(node, before) + std::size_t{1};
  if (sets_.size() < most) sets_.resize(most);
  std::vector<std::uint64_t> more = sets_[before];
  more.resize(std::max(more.size(), before / word_bits + 1));
  more[before / word_bits] |= std::uint64_t{1} << (before % word_bits);
  for (std::uint32_t i = 0; i < sets_.size(); ++i) {
    if (i != node && !has(i, node)) continue;
    auto& set = sets_[i];
    set.resize(std::max(set.size(), more.size()));
    for (std::size_t w = 0; w < more.size(); ++w) set[w] |= more[w];
  }
}

void Ancestors::forget() noexcept { known_ = false; }

void Ancestors::remember(const GraphForm& form) {
  if (known_) return;
  sets_.clear();
  for (std::uint32_t node = 0; node < form.nodes.size(); ++node) {
    for (const std::uint32_t before : form.nodes[node].depends) add(node, before);
  }
  known_ = true;
}

void infer_dependencies(GraphForm& form, Ancestors& ancestors, std::uint32_t node) {
  ancestors.remember(form);
  const std::vector<Region> mine = uses_of(form, node);
  FormNode& one = form.nodes[node];
  for (std::uint32_t i = node; i-- > 0;) {
    const FormNode& earlier = form.nodes[i];
    if (earlier.parent != one.parent || earlier.branch != one.branch || ancestors.has(node, i)) continue;
    const std::vector<Region> theirs = uses_of(form, i);
    const bool conflicts = std::any_of(mine.begin(), mine.end(), [&](const Region& a) {
      return std::any_of(theirs.begin(), theirs.end(), [&](const Region& b) { return conflict(a, b); });
    });
    if (!conflicts) continue;
    one.depends.push_back(i);
    ancestors.add(node, i);
  }
}

std::vector<std::uint32_t> path_between(const GraphForm& form, std::uint32_t first, std::uint32_t last) {
  // Backwards from the last, each node's successor on the way noted.
  std::unordered_map<std::uint32_t, std::uint32_t> next{{last, last}};
  std::vector<std::uint32_t> open{last};
  while (!open.empty() && !next.contains(first)) {
    const std::uint32_t node = open.back();
    open.pop_back();
    for (const std::uint32_t before : form.nodes[node].depends) {
      if (next.emplace(before, node).second) open.push_back(before);
    }
  }
  std::vector<std::uint32_t> path;
  if (!next.contains(first)) return path;
  for (std::uint32_t node = first;; node = next[node]) {
    path.push_back(node);
    if (node == last) return path;
  }
}

std::string describe_node(const GraphForm& form, std::uint32_t node) {
  return "node " + std::to_string(node) + " '" + name_of(form.nodes[node]) + "'";
}

std::string cycle_text(const GraphForm& form, const std::vector<std::uint32_t>& cycle) {
  std::string text = "the nodes would wait for each other: ";
  for (const std::uint32_t node : cycle) text += describe_node(form, node) + " -> ";
  return text + describe_node(form, cycle.front());
}

}  // namespace weir::detail
