// All of Weir.
#pragma once

#include <weir/algorithm.hpp>
#include <weir/array.hpp>
#include <weir/atomic.hpp>
#include <weir/copy.hpp>
#include <weir/device.hpp>
#include <weir/error.hpp>
#include <weir/event.hpp>
#include <weir/graph.hpp>
#include <weir/graph_builder.hpp>
#include <weir/graph_control.hpp>
#include <weir/graph_file.hpp>
#include <weir/graph_update.hpp>
#include <weir/histogram.hpp>
#include <weir/host_access.hpp>
#include <weir/host_call.hpp>
#include <weir/kernel_info.hpp>
#include <weir/launch.hpp>
#include <weir/memory.hpp>
#include <weir/observer.hpp>
#include <weir/operators.hpp>
#include <weir/segments.hpp>
#include <weir/select.hpp>
#include <weir/sort.hpp>
#include <weir/stream.hpp>
