// What is inside a captured graph, and whether its streams fork, join and wait enough.
#pragma once

#include <optional>
#include <set>
#include <string>

#include "program.hpp"

namespace weir::stress {

/// The objects that the body of a graph names.
struct Captured {
  explicit Captured(const GraphDecl& graph);

  std::set<int> streams;
  std::set<int> used;      ///< arrays that were there before
  std::set<int> left;      ///< arrays made inside that live on
  std::set<int> children;  ///< graphs
  bool has_memory = false;
};

/// The body as a program of its own: first what it uses is made, in the order of its origin. Child graphs are spelled out.
Program body_program(const Program& program, const GraphDecl& graph);
/// How many commands are before the body there.
std::size_t body_begin(const Program& body);
/// What is wrong with a capture: a stream that did not join, was not joined back, or waits too little.
std::optional<std::string> capture_problem(const Program& program, const GraphDecl& graph);

}  // namespace weir::stress
