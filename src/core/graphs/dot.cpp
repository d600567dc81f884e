// Graphs as pictures: Graphviz's language.
#include <algorithm>
#include <array>
#include <map>
#include <string>
#include <vector>

#include <weir/graph.hpp>

namespace weir {

namespace {

/// What a kind of node looks like.
struct Look {
  const char* shape;
  const char* style;
  const char* room = "";  ///< attributes of its size
};

Look look_of(NodeKind kind) {
  switch (kind) {
    case NodeKind::launch: return {"box", "rounded,filled"};
    case NodeKind::copy: return {"polygon", "filled", ", sides=4, skew=0.2, margin=\"0.02,0\""};
    case NodeKind::fill: return {"box", "filled"};
    case NodeKind::alloc: return {"house", "filled"};
    case NodeKind::free: return {"invhouse", "filled"};
    case NodeKind::record: return {"octagon", "filled"};
    case NodeKind::wait: return {"doubleoctagon", "filled"};
    case NodeKind::host_call: return {"component", "filled"};
    case NodeKind::external: return {"tab", "filled"};
    case NodeKind::graph: return {"folder", "filled"};
    case NodeKind::conditional: return {"diamond", "filled"};
    case NodeKind::empty: return {"circle", "filled", ", width=0.2, height=0.2"};
  }
  return {"box", "filled"};
}

constexpr std::array colours = {"#cfe2f3", "#d9ead3", "#fff2cc", "#f4cccc", "#d9d2e9",
                                "#fce5cd", "#d0e0e3", "#ead1dc", "#e6e6c8", "#d5dbe8"};
constexpr const char* no_stream = "#eeeeee";

std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += c == '\n' ? ' ' : c;
  }
  return out;
}

/// "ns::Saxpy<float>" as "Saxpy", a lambda as "lambda in main": what a person looks for.
std::string short_name(std::string_view name) {
  if (const auto lambda = name.find("<lambda"); lambda != std::string_view::npos) {
    std::string_view outer = name.substr(0, lambda);
    outer = outer.substr(0, outer.find('('));
    while (outer.ends_with(':')) outer.remove_suffix(1);
    if (const auto last = outer.rfind("::"); last != std::string_view::npos) outer = outer.substr(last + 2);
    return outer.empty() ? "lambda" : "lambda in " + std::string(outer);
  }
  std::string_view plain = name.substr(0, name.find('<'));
  if (const auto last = plain.rfind("::"); last != std::string_view::npos) plain = plain.substr(last + 2);
  constexpr std::size_t longest = 32;
  if (plain.size() > longest) return std::string(plain.substr(0, longest - 3)) + "...";
  return std::string(plain.empty() ? name : plain);
}

std::string place_of(const NodeInfo& node) {
  if (!node.where) return "made by hand or read from a file";
  return std::string(node.where.file_name()) + ":" + std::to_string(node.where.line());
}

class Drawing {
 public:
  explicit Drawing(const std::vector<NodeInfo>& nodes) : nodes_(nodes) {
    for (const NodeInfo& node : nodes) {
      if (node.stream != 0 && !colour_.contains(node.stream)) {
        colour_[node.stream] = colours[colour_.size() % colours.size()];
        streams_.push_back(&node);
      }
    }
  }

  std::string text() {
    out_ =
        "digraph weir {\n"
        "  graph [rankdir=TB, nodesep=0.25, ranksep=0.4, fontname=\"Helvetica\", fontsize=11, compound=true]\n"
        "  node [fontname=\"Helvetica\", fontsize=11, margin=\"0.12,0.06\", height=0.35, color=\"#555555\"]\n"
        "  edge [color=\"#555555\", arrowsize=0.7]\n";
    level(nullptr, 0, "  ");
    for (const NodeInfo& node : nodes_) {
      for (const Node before : node.depends) {
        out_ += "  n" + std::to_string(before.index()) + " -> n" + std::to_string(node.node.index()) +
                (implied(node, before) ? " [color=\"#cccccc\"]" : "") + "\n";
      }
    }
    legend();
    return out_ + "}\n";
  }

 private:
  void level(const Node* parent, std::uint32_t branch, const std::string& indent) {
    for (const NodeInfo& node : nodes_) {
      const bool here =
          parent == nullptr ? !node.parent : node.parent && *node.parent == *parent && node.branch == branch;
      if (here) draw(node, indent);
    }
  }

  void draw(const NodeInfo& node, const std::string& indent) {
    const std::uint32_t bodies = bodies_of(node.node);
    if (bodies == 0) {
      box(node, indent);
      return;
    }
    const std::string id = std::to_string(node.node.index());
    out_ += indent + "subgraph cluster_" + id + " {\n" + indent +
            "  style=\"rounded,dashed\"; color=\"#888888\"; label=\"\"\n";
    box(node, indent + "  ");
    for (std::uint32_t b = 0; b < bodies; ++b) {
      out_ += indent + "  subgraph cluster_" + id + "_" + std::to_string(b) + " {\n" + indent +
              "    style=\"rounded,filled\"; color=\"#dddddd\"; fillcolor=\"#fafafa\"; label=\"" + body_label(node, b) +
              "\"\n";
      level(&node.node, b, indent + "    ");
      out_ += indent + "  }\n";
      for (const NodeInfo& inner : nodes_) {
        const bool root = inner.parent && *inner.parent == node.node && inner.branch == b && inner.depends.empty();
        if (root) {
          out_ += indent + "  n" + id + " -> n" + std::to_string(inner.node.index()) + " [style=dashed]\n";
        }
      }
    }
    out_ += indent + "}\n";
  }

  void box(const NodeInfo& node, const std::string& indent) {
    const Look look = look_of(node.kind);
    std::string label = node.kind == NodeKind::empty ? "" : escaped(short_name(node.name));
    if (!node.detail.empty()) label += "\\n" + escaped(node.detail);
    const char* fill = node.stream == 0 ? no_stream : colour_.at(node.stream);
    const std::string style = std::string(look.style) + (node.enabled ? "" : ",dashed");
    out_ += indent + "n" + std::to_string(node.node.index()) + " [label=\"" + label + "\", shape=" + look.shape +
            ", style=\"" + style + "\", fillcolor=\"" + fill + "\", tooltip=\"" +
            escaped(std::string(to_text(node.kind)) + " " + node.name + "\n" + place_of(node)) + "\"" + look.room +
            (node.enabled ? "" : ", fontcolor=\"#999999\"") + "]\n";
  }

  std::uint32_t bodies_of(Node node) const {
    std::uint32_t bodies = 0;
    for (const NodeInfo& inner : nodes_) {
      if (inner.parent && *inner.parent == node) bodies = std::max(bodies, inner.branch + 1);
    }
    return bodies;
  }

  static std::string body_label(const NodeInfo& node, std::uint32_t body) {
    if (node.kind == NodeKind::graph) return "";
    if (node.name == "switch") return "case " + std::to_string(body);
    if (node.name == "while") return "again and again";
    return body == 0 ? "then" : "else";
  }

  /// Whether a longer way leads there as well: such edges are drawn faintly.
  bool implied(const NodeInfo& node, Node before) const {
    std::vector<bool> seen(nodes_.size());
    std::vector<std::size_t> open;
    for (const Node other : node.depends) {
      if (other != before) open.push_back(other.index());
    }
    while (!open.empty()) {
      const std::size_t next = open.back();
      open.pop_back();
      if (next == before.index()) return true;
      if (next >= nodes_.size() || seen[next]) continue;
      seen[next] = true;
      for (const Node other : nodes_[next].depends) open.push_back(other.index());
    }
    return false;
  }

  void legend() {
    if (streams_.size() < 2) return;
    out_ += "  subgraph cluster_streams {\n    label=\"streams\"; style=rounded; color=\"#bbbbbb\"\n";
    std::string chain;
    for (std::size_t i = 0; i < streams_.size(); ++i) {
      const std::string id = "stream" + std::to_string(i);
      out_ += "    " + id + " [label=\"" + escaped(streams_[i]->stream_name) +
              "\", shape=plaintext, style=filled, fillcolor=\"" + colour_.at(streams_[i]->stream) +
              "\", height=0.25]\n";
      chain += (i == 0 ? "    " : " -> ") + id;
    }
    out_ += chain + " [style=invis]\n  }\n";
  }

  const std::vector<NodeInfo>& nodes_;
  std::map<StreamId, const char*> colour_;
  std::vector<const NodeInfo*> streams_;
  std::string out_;
};

}  // namespace

std::string to_dot(const std::vector<NodeInfo>& nodes) { return Drawing(nodes).text(); }
std::string to_dot(const Graph& graph, SourceLocation where) { return to_dot(graph.nodes(where)); }

}  // namespace weir
