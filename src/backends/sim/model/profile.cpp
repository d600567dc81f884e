// The list of fields.
#include "backends/sim/model/profile.hpp"

#include <cmath>

namespace weir::sim::model {

namespace {

constexpr double most_us = 1e6, most_rate = 1e6, most_count = 1e9;

#define WEIR_FIELD(name, member, unit, least, most, whole)                                     \
  Field {                                                                                      \
    name, unit, least, most, whole, [](Profile& profile) -> double& { return profile.member; } \
  }
#define WEIR_COUNT(name, least) WEIR_FIELD(#name, name, "count", least, most_count, true)
#define WEIR_SWITCH(name) WEIR_FIELD(#name, name, "0 or 1", 0, 1, true)
#define WEIR_US(group, name) WEIR_FIELD(#group "." #name, group.name, "us", 0, most_us, false)
#define WEIR_RATE(group, name) WEIR_FIELD(#group "." #name, group.name, "GB/s", 1e-3, most_rate, false)
#define WEIR_PERCENT(name) WEIR_FIELD("interval." #name, interval.name, "%", 0, 1000, false)

const Field all[] = {
    WEIR_FIELD("memory_bytes", memory_bytes, "bytes", 1, 1e18, true),
    WEIR_FIELD("compute_capability", compute_capability, "version", 1, 100, false),
    WEIR_COUNT(sms, 1),
    WEIR_COUNT(threads_per_sm, 1),
    WEIR_COUNT(blocks_per_sm, 1),
    WEIR_FIELD("shared_bytes_per_sm", shared_bytes_per_sm, "bytes", 0, most_count, true),
    WEIR_COUNT(resident_kernels, 1),
    WEIR_COUNT(work_queues, 1),
    WEIR_COUNT(own_work_queues, 1),
    WEIR_COUNT(pending_commands, 1),
    WEIR_FIELD("copy_engines", copy_engines, "count", 0, 16, true),
    WEIR_SWITCH(copies_in_order),
    WEIR_SWITCH(dependency_check),
    WEIR_SWITCH(implicit_synchronization),
    WEIR_US(host, copy_us),
    WEIR_US(host, copy_within_us),
    WEIR_US(host, launch_us),
    WEIR_US(host, launch_memory_us),
    WEIR_US(host, fill_us),
    WEIR_US(host, host_function_us),
    WEIR_US(host, record_us),
    WEIR_US(host, wait_us),
    WEIR_US(host, synchronize_us),
    WEIR_US(host, wake_us),
    WEIR_US(host, query_us),
    WEIR_US(host, allocate_us),
    WEIR_US(host, graph_us),
    WEIR_US(host, graph_branch_us),
    WEIR_US(host, function_us),
    WEIR_US(start, copy_us),
    WEIR_US(start, kernel_us),
    WEIR_US(start, host_function_us),
    WEIR_US(start, graph_branch_us),
    WEIR_RATE(link, h2d_gb_s),
    WEIR_RATE(link, d2h_gb_s),
    WEIR_FIELD("link.both_factor", link.both_factor, "factor", 0.01, 1, false),
    WEIR_US(link, setup_h2d_us),
    WEIR_US(link, setup_d2h_us),
    WEIR_US(link, setup_both_us),
    WEIR_RATE(link, peer_gb_s),
    WEIR_RATE(pageable, h2d_gb_s),
    WEIR_RATE(pageable, d2h_gb_s),
    WEIR_US(pageable, setup_h2d_us),
    WEIR_US(pageable, setup_d2h_us),
    WEIR_FIELD("pageable.small_bytes", pageable.small_bytes, "bytes", 0, most_count, true),
    WEIR_FIELD("pageable.staged_bytes", pageable.staged_bytes, "bytes", 0, most_count, true),
    WEIR_RATE(pageable, staged_h2d_gb_s),
    WEIR_RATE(pageable, staged_d2h_gb_s),
    WEIR_US(pageable, staged_setup_h2d_us),
    WEIR_US(pageable, staged_setup_d2h_us),
    WEIR_RATE(memory, gb_s),
    WEIR_RATE(memory, host_gb_s),
    WEIR_FIELD("memory.saturating_share", memory.saturating_share, "share", 0.001, 1, false),
    WEIR_US(memory, kernel_us),
    WEIR_US(memory, copy_us),
    WEIR_US(memory, fill_us),
    WEIR_US(hop, copy_kernel_us),
    WEIR_US(hop, kernel_copy_us),
    WEIR_US(hop, copy_copy_us),
    WEIR_US(hop, kernel_kernel_us),
    WEIR_US(hop, to_host_function_us),
    WEIR_US(hop, to_awake_function_us),
    WEIR_US(hop, function_awake_us),
    WEIR_FIELD("hop.function_wait_share", hop.function_wait_share, "factor", 0, 1000, false),
    WEIR_US(hop, from_host_function_us),
    WEIR_US(hop, event_us),
    WEIR_US(hop, passed_event_us),
    WEIR_US(hop, legacy_us),
    WEIR_US(hop, graph_us),
    WEIR_US(hop, crowd_us),
    WEIR_FIELD("hop.crowd_streams", hop.crowd_streams, "count", 0, most_count, true),
    WEIR_US(blocks, turnaround_us),
    WEIR_US(blocks, start_us),
    WEIR_PERCENT(short_low_percent),
    WEIR_PERCENT(short_high_percent),
    WEIR_PERCENT(middle_low_percent),
    WEIR_PERCENT(middle_high_percent),
    WEIR_PERCENT(long_low_percent),
    WEIR_PERCENT(long_high_percent),
    WEIR_PERCENT(host_functions_percent),
};

#undef WEIR_FIELD
#undef WEIR_COUNT
#undef WEIR_SWITCH
#undef WEIR_US
#undef WEIR_RATE
#undef WEIR_PERCENT

std::string shown(double value) {
  std::string text = std::to_string(value);
  while (text.find('.') != std::string::npos && (text.back() == '0' || text.back() == '.')) {
    const bool point = text.back() == '.';
    text.pop_back();
    if (point) break;
  }
  return text;
}

}  // namespace

std::span<const Field> fields() { return all; }

const Field* find_field(std::string_view name) {
  for (const Field& field : all) {
    if (field.name == name) return &field;
  }
  return nullptr;
}

std::string refusal(const Field& field, double value) {
  if (!(value >= field.least && value <= field.most)) {
    return "it is from " + shown(field.least) + " to " + shown(field.most) + " (" + std::string(field.unit) + ")";
  }
  if (field.whole && value != std::floor(value)) return "it is a whole number";
  return {};
}

}  // namespace weir::sim::model
