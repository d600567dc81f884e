// A tool of one's own: an observer that counts the bytes copied by each stream. Public headers are all it needs.
#include <cstdio>
#include <map>
#include <string>
#include <variant>

#include <weir/weir.hpp>

class CopyCounter : public weir::Observer {
 public:
  void opened(const weir::StreamInfo& stream) override { names_[stream.id] = stream.name; }

  // Every call on a stream becomes a command; this sees it before the stream does. Calls are serialised: no lock is
  // needed.
  void submitted(const weir::Command& command) override {
    if (const auto* copy = std::get_if<weir::Copy>(&command.op)) {
      bytes_[names_[command.stream]] += copy->to_layout.shape.count() * copy->to_layout.element_bytes;
    }
  }

  const std::map<std::string, std::size_t>& bytes() const { return bytes_; }

 private:
  std::map<weir::StreamId, std::string> names_;
  std::map<std::string, std::size_t> bytes_;
};

int main(int argc, char** argv) {
  const weir::Device device = argc > 1 ? weir::device(argv[1]) : weir::default_device();

  CopyCounter counter;
  weir::attach(counter);
  {
    weir::Stream upload(device, {.name = "upload"});
    weir::Stream download(device, {.name = "download"});

    auto staging = weir::ones<float>(weir::pinned, 1000);
    auto data = weir::empty<float>(upload, 1000);
    for (int i = 0; i < 3; ++i) weir::copy(upload, data, staging);
    download.wait(upload);
    weir::copy(download, staging.slice(0, 250), data.slice(0, 250));
    download.synchronize();
  }
  weir::detach(counter);

  for (const auto& [name, bytes] : counter.bytes()) std::printf("%-10s %6zu bytes copied\n", name.c_str(), bytes);
  const std::map<std::string, std::size_t> expected = {{"upload", 3 * 4000}, {"download", 1000}};
  return counter.bytes() == expected ? 0 : 1;
}
