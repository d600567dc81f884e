// What the environment asks for when a program first calls Weir: tools that need no change of its code.
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <memory>
#include <string>

#include <unistd.h>

#include <weir/error.hpp>
#include <weir/recorder.hpp>

namespace weir::detail {

namespace {

/// Records until the process exits, and saves.
class RecorderOfProcess {
 public:
  explicit RecorderOfProcess(std::filesystem::path path) : path_(std::move(path)), process_(getpid()) {
    // Now, and not when all is over, it turns out that the file cannot be written.
    save(Recording(), path_, {});
    recorder_ = std::make_unique<Recorder>(RecorderOptions{}, SourceLocation{});
  }
  void end() noexcept {
    if (getpid() != process_) return;  // a child has the parent's
    try {
      save(recorder_->finish(), path_, {});
    } catch (const std::exception& error) {
      std::fprintf(stderr, "weir: WEIR_RECORD: %s\n", error.what());
    }
  }

 private:
  std::filesystem::path path_;
  pid_t process_;
  std::unique_ptr<Recorder> recorder_;
};

RecorderOfProcess* recorder_of_process = nullptr;

}  // namespace

void start_tools() {
  const char* const path = std::getenv("WEIR_RECORD");
  if (path == nullptr || *path == '\0') return;
  try {
    recorder_of_process = new RecorderOfProcess(std::filesystem::absolute(path));
  } catch (const Error& error) {
    throw Error(Errc::invalid_value, "weir: starting", "WEIR_RECORD", "'" + std::string(path) + "': " + error.what(),
                {});
  }
  std::atexit([] { recorder_of_process->end(); });
}

}  // namespace weir::detail
