// `weir graph show`: draws a graph that weir::save() wrote.
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include <fmt/format.h>

#include <weir/error.hpp>
#include <weir/graph_file.hpp>

#include "session.hpp"

namespace tool {

namespace {

struct Options {
  std::string file;
  std::string output;
};

std::string extension(const std::string& path) {
  const auto dot = path.rfind('.');
  return dot == std::string::npos ? "" : path.substr(dot + 1);
}

/// Has Graphviz draw, where it is installed.
void draw(const std::string& text, const std::string& format, const std::string& path) {
  if (std::system("command -v dot > /dev/null 2>&1") != 0) {
    throw std::runtime_error(
        fmt::format("--output {}: there is no program dot: install graphviz, or let the output end in .dot", path));
  }
  std::string quoted = "'";
  for (const char c : path) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  const std::string command = "dot -T" + format + " -o " + quoted + "'";
  const auto before = std::signal(SIGPIPE, SIG_IGN);  // a dot that ends early is an error like others
  FILE* dot = popen(command.c_str(), "w");
  const bool written = dot != nullptr && std::fwrite(text.data(), 1, text.size(), dot) == text.size();
  const bool drawn = dot != nullptr && pclose(dot) == 0 && written;
  std::signal(SIGPIPE, before);
  if (!drawn) throw std::runtime_error(fmt::format("--output {}: dot could not draw it", path));
}

void write(const std::string& text, const std::string& path) {
  std::ofstream file(path);
  file << text;
  file.close();
  if (!file) throw std::runtime_error(fmt::format("--output {}: it cannot be written", path));
}

Json to_json(const weir::NodeInfo& node) {
  Json depends = Json::array();
  for (const weir::Node before : node.depends) depends.push_back(before.index());
  Json json = {{"node", node.node.index()},
               {"kind", std::string(weir::to_text(node.kind))},
               {"name", node.name},
               {"detail", node.detail},
               {"where", fmt::format("{}:{}", node.where.file_name(), node.where.line())},
               {"stream", node.stream_name},
               {"depends", depends},
               {"enabled", node.enabled}};
  if (node.parent) {
    json["parent"] = node.parent->index();
    json["branch"] = node.branch;
  }
  return json;
}

Exit show(const Session& session, const Options& options) {
  std::vector<weir::NodeInfo> nodes;
  try {
    nodes = weir::read_graph_nodes(options.file);
  } catch (const weir::Error& error) {
    const bool unreadable = error.errc() == weir::Errc::invalid_value || error.errc() == weir::Errc::not_a_graph_file;
    if (unreadable) throw UsageError(error.what());
    throw;
  }
  const std::string text = weir::to_dot(nodes);
  if (!options.output.empty()) {
    const std::string format = extension(options.output);
    if (format == "svg" || format == "png" || format == "pdf") {
      draw(text, format, options.output);
    } else if (format == "dot" || format == "gv") {
      write(text, options.output);
    } else {
      throw UsageError(fmt::format("--output {}: it must end in .svg, .png, .pdf or .dot", options.output));
    }
  }
  Json json = Json::array();
  for (const weir::NodeInfo& node : nodes) json.push_back(to_json(node));
  if (session.json) session.print({{"file", options.file}, {"nodes", json}});
  session.say(options.output.empty() ? text : fmt::format("{} nodes drawn to {}\n", nodes.size(), options.output));
  return Exit::ok;
}

}  // namespace

void add_graph(const Command& app, Session& session) {
  const Command graph = app.add("graph", "Looks at graphs in files");
  graph.needs_command();
  const Command command =
      graph.add("show", "Draws a graph that weir::save() wrote, in Graphviz's language or as a picture");
  const auto options = std::make_shared<Options>();
  command.operand("FILE", options->file, "the file");
  command.text("-o,--output", options->output, "a picture: .svg (source lines on hover), .png, .pdf; or .dot");
  command.flag("--json", session.json, "print the nodes as JSON");
  command.when_given([&session, options] { session.run = [&session, options] { return show(session, *options); }; });
}

}  // namespace tool
