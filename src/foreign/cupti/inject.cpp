// The library that `weir trace --cuda` has the CUDA driver load into a program: the program's timeline, by CUPTI's records.
//
// WEIR_CUDA_TRACE=FILE says where it goes, and WEIR_CUDA_TRACE_REPORT=FILE where the tool reads how it went: lines of one word
// and what belongs to it, of all processes that the program starts.
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include "foreign/cupti/collector.hpp"
#include "trace/best_rates.hpp"
#include "trace/keeper.hpp"
#include "trace/process.hpp"

namespace weir::foreign {

namespace {

const char* variable(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr || *value == '\0' ? nullptr : value;
}

std::size_t bytes_of(std::string_view text) {
  std::size_t bytes = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), bytes);
  if (error != std::errc() || end != text.data() + text.size()) {
    throw std::invalid_argument("WEIR_CUDA_TRACE_LIMIT is '" + std::string(text) + "': a number of bytes");
  }
  return bytes;
}

/// The file in which processes say how it went.
class Report {
 public:
  /// False where another process was there before.
  bool add(const std::string& line) const {
    const char* const path = variable("WEIR_CUDA_TRACE_REPORT");
    const int file = path == nullptr ? -1 : open(path, O_WRONLY | O_APPEND | O_CLOEXEC);
    if (file < 0) return true;
    flock(file, LOCK_EX);
    const bool first = lseek(file, 0, SEEK_END) == 0;
    const std::string text = line + "\n";
    if (write(file, text.data(), text.size()) < 0) std::fprintf(stderr, "weir: trace: %s cannot be written\n", path);
    close(file);
    return first;
  }
};

class Tracer {
 public:
  /// Null where nothing is recorded.
  static Tracer* of_process() {
    static Tracer* const made = make();
    return made;
  }
  const Cupti& cupti() const { return collector_->cupti(); }

 private:
  static Tracer* make() {
    const char* const file = variable("WEIR_CUDA_TRACE");
    if (file == nullptr) return nullptr;
    auto made = std::make_unique<Tracer>();
    try {
      made->begin(file);
    } catch (const std::exception& error) {
      std::fprintf(stderr, "weir: trace: %s\n", error.what());
      made->report_.add(std::string("error ") + error.what());
      static_cast<void>(made->collector_.release());  // CUPTI hands its records to it already
      return nullptr;
    }
    std::atexit([] { of_process()->end(); });
    return made.release();
  }

  void begin(const char* file) {
    file_ = file;
    process_ = getpid();
    Collector::Options options;
    options.graph_nodes = variable("WEIR_CUDA_TRACE_NODES") != nullptr;
    if (const char* const limit = variable("WEIR_CUDA_TRACE_LIMIT")) options.limit = bytes_of(limit);
    program_ = trace::command_line();
    date_ = trace::date_now();
    machine_ = trace::machine();
    collector_ = std::make_unique<Collector>(options);
    // What a process starts has files of its own.
    if (!report_.add("process " + std::to_string(process_))) {
      std::filesystem::path own = file_;
      own.replace_filename(file_.stem().string() + "." + std::to_string(process_) + file_.extension().string());
      file_ = own;
    }
    save(unfinished(Collector::Ask::nothing), file_,
         {});  // now, and not when all is over, it turns out that it cannot be written
    keeper_ = std::make_unique<trace::Keeper>(file_, [this] { return unfinished(Collector::Ask::what_is_over); });
  }

  void end() {
    if (getpid() != process_) return;  // a child has the parent's
    keeper_->stop();
    try {
      save(timeline(Collector::Ask::all), file_, {});
      report_.add("commands " + std::to_string(collector_->commands()) + " " + file_.string());
    } catch (const std::exception& error) {
      std::fprintf(stderr, "weir: trace: %s\n", error.what());
      report_.add(std::string("error ") + error.what());
    }
  }

  trace::Timeline timeline(Collector::Ask ask) {
    trace::Timeline made = assemble(collector_->collect(ask));
    trace::set_best_rates_of_gpus(made);
    made.program = program_;
    made.date = date_;
    made.origin = collector_->steady();
    made.machine = machine_;
    return made;
  }

  trace::Timeline unfinished(Collector::Ask ask) {
    trace::Timeline made = timeline(ask);
    trace::add_note(made, trace::written_meanwhile);
    return made;
  }

  Report report_;
  std::filesystem::path file_;
  pid_t process_ = 0;
  std::string program_;
  std::string date_;
  std::string machine_;
  std::unique_ptr<Collector> collector_;
  std::unique_ptr<trace::Keeper> keeper_;
};

}  // namespace

}  // namespace weir::foreign

#define WEIR_INJECTED extern "C" __attribute__((visibility("default")))

/// Called by the CUDA driver, when the program first needs it: CUDA_INJECTION64_PATH.
WEIR_INJECTED int InitializeInjection() {
  weir::foreign::Tracer::of_process();
  return 1;
}

/// Called by NVTX, when the program first names something: NVTX_INJECTION64_PATH. CUPTI makes records of it.
WEIR_INJECTED int InitializeInjectionNvtx2(void* get_table) {
  weir::foreign::Tracer* const tracer = weir::foreign::Tracer::of_process();
  if (tracer == nullptr) return 0;
  void* const found = dlsym(tracer->cupti().handle, "InitializeInjectionNvtx2");
  return found == nullptr ? 0 : reinterpret_cast<int (*)(void*)>(found)(get_table);
}
