// Scenes of a process's life (exit, fork, environment), each played by a child process of the same test program.
#pragma once

#include <gtest/gtest.h>

#include <initializer_list>
#include <string>
#include <string_view>

#include "support/watchdog.hpp"

namespace weir_test {

/// Ends a child with a message unless `fact` holds.
void insist(bool fact, const char* what);

using Scene = void (*)();
/// Makes a scene known, from the static initialisation of a program that has scenes.
bool add_scene(const char* name, Scene scene);

/// What became of a child.
struct Outcome {
  bool ended = false;  ///< false: killed because it took too long
  int status = 0;      ///< as from waitpid
  std::string output;  ///< of stdout and stderr
};

testing::AssertionResult ended_well(const Outcome& outcome);

/// Plays a scene in a fresh process of this program, for at most 30 s.
Outcome play(std::string_view scene, std::initializer_list<std::string_view> environment_changes = {});

}  // namespace weir_test

/// Defines a scene: `WEIR_SCENE(exits_with_work_pending) { ... }`, played by `play("exits_with_work_pending")`.
#define WEIR_SCENE(name)                                                               \
  static void scene_##name();                                                          \
  static const bool scene_##name##_known = weir_test::add_scene(#name, &scene_##name); \
  static void scene_##name()
