// A tool of one's own: an observer that writes a log of each stream, and what orders the streams among each other. Public
// headers are all it needs.
#include <cstdio>
#include <map>
#include <mutex>
#include <string>
#include <variant>
#include <vector>

#include <weir/weir.hpp>

/// Observers are called by the threads that make the calls, several at once: what they keep is theirs to lock.
class StreamLog : public weir::Observer {
 public:
  void opened(const weir::StreamInfo& stream) override {
    const std::lock_guard lock(mutex_);
    names_[stream.id] = stream.name;
  }
  void named(weir::BufferId buffer, std::string_view name) override {
    const std::lock_guard lock(mutex_);
    buffers_[buffer] = name;
  }

  // Every call on a stream becomes a command; this sees it before the stream does.
  void submitted(const weir::Command& command) override {
    const std::lock_guard lock(mutex_);
    std::string line = what(command);
    for (const weir::Region& use : command.uses) line += text_of(use);
    for (const weir::StreamId other : command.behind) line += ", behind all of '" + names_[other] + "'";
    lines_[names_[command.stream]].push_back(line);
  }
  void waited(const weir::HostWait& wait) override {
    const std::lock_guard lock(mutex_);
    if (wait.stream != 0) lines_[names_[wait.stream]].push_back("the host has waited");
  }

  void print() const {
    for (const auto& [stream, lines] : lines_) {
      std::printf("%s\n", stream.empty() ? "host" : stream.c_str());
      for (const std::string& line : lines) std::printf("  %s\n", line.c_str());
    }
  }
  std::size_t count(const std::string& stream) const { return lines_.at(stream).size(); }

 private:
  /// Records and waits know each other by the event and the number of its record.
  static std::string what(const weir::Command& command) {
    if (const auto* record = std::get_if<weir::Record>(&command.op)) {
      return "record event " + std::to_string(record->event_id) + ", number " + std::to_string(record->number);
    }
    if (const auto* wait = std::get_if<weir::Wait>(&command.op)) {
      return "wait for event " + std::to_string(wait->event_id) + ", number " + std::to_string(wait->record);
    }
    if (std::holds_alternative<weir::Copy>(command.op)) return "copy";
    if (std::holds_alternative<weir::Fill>(command.op)) return "fill";
    if (const auto* alloc = std::get_if<weir::Alloc>(&command.op)) {
      return "make " + std::to_string(alloc->bytes) + " bytes";
    }
    if (std::holds_alternative<weir::Free>(command.op)) return "free";
    return weir::to_text(command.op);
  }
  std::string text_of(const weir::Region& use) {
    const char* access = use.access == weir::Access::read ? ", reads " : ", writes ";
    const auto found = buffers_.find(use.buffer);
    return access + std::to_string(use.extent_bytes()) + " bytes of " +
           (found != buffers_.end() ? found->second : "an array");
  }

  std::mutex mutex_;
  std::map<weir::StreamId, std::string> names_;
  std::map<weir::BufferId, std::string> buffers_;
  std::map<std::string, std::vector<std::string>> lines_;
};

int main(int argc, char** argv) {
  const weir::Device device = argc > 1 ? weir::device(argv[1]) : weir::default_device();

  StreamLog log;
  weir::attach(log, weir::Watch::commands | weir::Watch::memory | weir::Watch::host);
  {
    weir::Stream upload(device, {.name = "upload"});
    weir::Stream download(device, {.name = "download"});

    auto staging = weir::ones<float>(weir::pinned, 1000);
    auto data = weir::empty<float>(upload, 1000);
    staging.set_name("staging");
    data.set_name("data");
    for (int i = 0; i < 3; ++i) weir::copy(upload, data, staging);
    download.wait(upload);
    weir::copy(download, staging.slice(0, 250), data.slice(0, 250));
    download.synchronize();
  }
  weir::detach(log);

  log.print();
  // make, 3 copies, record, free; wait, copy, the host's wait
  return log.count("upload") == 6 && log.count("download") == 3 ? 0 : 1;
}
