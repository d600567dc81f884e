// Facts from the system and from hwloc, whose topology is read only when somebody asks for properties.
#include "backends/cpu/workers/topology.hpp"

#include <hwloc.h>
#include <sched.h>
#include <unistd.h>

#include <charconv>
#include <cstdlib>
#include <cstring>
#include <thread>

#include <weir/error.hpp>

namespace weir::cpu {

namespace {

struct Facts {
  std::size_t cache_bytes = 0;
  std::string processor = "CPU";
};

Facts read_facts() {
  Facts facts;
  hwloc_topology_t topology;
  if (hwloc_topology_init(&topology) != 0) return facts;
  if (hwloc_topology_load(topology) == 0) {
    for (const hwloc_obj_type_t level : {HWLOC_OBJ_L3CACHE, HWLOC_OBJ_L2CACHE}) {
      if (const hwloc_obj_t cache = hwloc_get_obj_by_type(topology, level, 0)) {
        facts.cache_bytes = cache->attr->cache.size;
        break;
      }
    }
    for (const hwloc_obj_type_t type : {HWLOC_OBJ_PACKAGE, HWLOC_OBJ_MACHINE}) {
      const hwloc_obj_t object = hwloc_get_obj_by_type(topology, type, 0);
      const char* model = object ? hwloc_obj_get_info_by_name(object, "CPUModel") : nullptr;
      if (model != nullptr) {
        facts.processor = model;
        break;
      }
    }
  }
  hwloc_topology_destroy(topology);
  return facts;
}

const Facts& facts() {
  static const auto& all = *new Facts(read_facts());
  return all;
}

/// A whole number from the environment; `otherwise` if it is not set.
int number_from(const char* variable, const char* what, int most, int otherwise) {
  const char* text = std::getenv(variable);
  if (text == nullptr || *text == '\0') return otherwise;
  int count = 0;
  const auto [end, error] = std::from_chars(text, text + std::strlen(text), count);
  if (error != std::errc{} || *end != '\0' || count < 1 || count > most) {
    throw Error(Errc::invalid_value, "weir: starting the CPU backend", variable,
                "'" + std::string(text) + "' is not a number of " + what + " from 1 to " + std::to_string(most), {});
  }
  return count;
}

}  // namespace

int usable_cores() {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) == 0 && CPU_COUNT(&set) > 0) return CPU_COUNT(&set);
  const unsigned cores = std::thread::hardware_concurrency();
  return cores == 0 ? 1 : static_cast<int>(cores);
}

std::size_t physical_memory() {
  return static_cast<std::size_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<std::size_t>(sysconf(_SC_PAGE_SIZE));
}

std::size_t cache_bytes() { return facts().cache_bytes; }
std::string processor_name() { return facts().processor; }

int wanted_devices() { return number_from("WEIR_CPU_DEVICES", "devices", 64, 1); }
int wanted_workers() { return number_from("WEIR_CPU_WORKERS", "workers", 128, usable_cores()); }

}  // namespace weir::cpu
