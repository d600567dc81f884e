// What a device is like, in numbers: the constants of the model. Times are microseconds, rates GB/s (1,000 bytes a microsecond).
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace weir::sim::model {

/// One number for each field of a profile file; docs/simulation.md says what each means. Switches are 0 or 1.
struct Profile {
  std::string name;

  double memory_bytes = 0;
  double compute_capability = 0;
  double sms = 0;
  double threads_per_sm = 0;
  double blocks_per_sm = 0;
  double shared_bytes_per_sm = 0;
  double resident_kernels = 0;
  double work_queues = 0;
  double own_work_queues = 0;
  double pending_commands = 0;
  double copy_engines = 0;
  double copies_in_order = 0;
  double dependency_check = 0;
  double implicit_synchronization = 0;

  struct Host {
    double copy_us = 0, copy_within_us = 0, launch_us = 0, launch_memory_us = 0, fill_us = 0, host_function_us = 0,
           record_us = 0, wait_us = 0, synchronize_us = 0, wake_us = 0, function_us = 0, query_us = 0, allocate_us = 0,
           graph_us = 0, graph_branch_us = 0;
  } host;
  struct Start {
    double copy_us = 0, kernel_us = 0, host_function_us = 0, graph_branch_us = 0;
  } start;
  struct Link {
    double h2d_gb_s = 0, d2h_gb_s = 0, both_factor = 0, setup_h2d_us = 0, setup_d2h_us = 0, setup_both_us = 0,
           peer_gb_s = 0;
  } link;
  struct Pageable {
    double h2d_gb_s = 0, d2h_gb_s = 0, setup_h2d_us = 0, setup_d2h_us = 0, small_bytes = 0, staged_bytes = 0,
           staged_h2d_gb_s = 0, staged_d2h_gb_s = 0, staged_setup_h2d_us = 0, staged_setup_d2h_us = 0;
  } pageable;
  struct Memory {
    double gb_s = 0, host_gb_s = 0, saturating_share = 0, kernel_us = 0, copy_us = 0, fill_us = 0;
  } memory;
  struct Hop {
    double copy_kernel_us = 0, kernel_copy_us = 0, copy_copy_us = 0, kernel_kernel_us = 0, to_host_function_us = 0,
           to_awake_function_us = 0, function_awake_us = 0, function_wait_share = 0, from_host_function_us = 0,
           event_us = 0, passed_event_us = 0, legacy_us = 0, graph_us = 0, crowd_us = 0, crowd_streams = 0;
  } hop;
  struct Blocks {
    double turnaround_us = 0, start_us = 0;
  } blocks;
  /// Of the makespan, in percent: what the 90 % interval takes off and adds, for programs under 100 us, under 1 ms, and longer;
  /// and what it adds besides where host functions run.
  struct Interval {
    double short_low_percent = 0, short_high_percent = 0, middle_low_percent = 0, middle_high_percent = 0,
           long_low_percent = 0, long_high_percent = 0, host_functions_percent = 0;
  } interval;
};

/// A field of profiles: its name as in files and in --set, its unit, and the values that make sense.
struct Field {
  std::string_view name;
  std::string_view unit;
  double least;
  double most;
  bool whole;
  double& (*of)(Profile&);
};

/// All fields, in the order of the files.
std::span<const Field> fields();
/// Null if there is none of that name.
const Field* find_field(std::string_view name);
/// Why a field cannot have a value; empty if it can.
std::string refusal(const Field& field, double value);

}  // namespace weir::sim::model
