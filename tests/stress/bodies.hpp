// What graphs do at one moment of a program: their bodies, child graphs spelled out, as captured and as updated since.
#pragma once

#include <memory>
#include <vector>

#include "program.hpp"

namespace weir::stress {

class Bodies {
 public:
  /// A command of a graph, and whether it is enabled.
  struct Step {
    Command command;
    bool enabled = true;
  };
  using Body = std::vector<Step>;

  explicit Bodies(const Program& program) : program_(program), bodies_(program.graphs.size()) {}

  /// Of the commands that make graphs or update them.
  void apply(const Command& command);
  /// As it is now: what is launched now goes on with it, whatever is updated later.
  std::shared_ptr<const Body> now(int graph) const { return bodies_[static_cast<std::size_t>(graph)]; }

 private:
  void capture(const Command& command);
  void update(const Command& command);

  const Program& program_;
  std::vector<std::shared_ptr<const Body>> bodies_;
};

/// Whether a graph's command can be updated: a kernel whose launch the graph finds by a name.
bool can_update(Kind kind);
/// The command of the graph's body that an update means; null if there is none.
const Command* updated(const Program& program, const Command& update);

}  // namespace weir::stress
