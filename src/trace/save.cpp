// Timelines in files, whole or not at all.
#include <ostream>
#include <streambuf>
#include <string_view>

#include <weir/trace.hpp>

#include "recording/file_output.hpp"

namespace weir::trace {

namespace {

/// A stream into a file; what goes wrong is thrown.
class FileBuffer final : public std::streambuf {
 public:
  explicit FileBuffer(recorded::FileOutput& file) : file_(file) {}

 private:
  std::streamsize xsputn(const char* data, std::streamsize count) override {
    file_.write({data, static_cast<std::size_t>(count)});
    return count;
  }
  int_type overflow(int_type c) override {
    const char one = traits_type::to_char_type(c);
    file_.write({&one, 1});
    return c;
  }
  recorded::FileOutput& file_;
};

}  // namespace

void save(const Timeline& timeline, const std::filesystem::path& path, SourceLocation where) {
  recorded::FileOutput file("weir::trace::save", path, where);
  FileBuffer buffer(file);
  std::ostream out(&buffer);
  out.exceptions(std::ios::badbit);  // what the file throws passes
  if (path.extension() == ".html") {
    write_page(timeline, out);
  } else if (path.extension() == ".pftrace") {
    write_perfetto(timeline, out);
  } else {
    write_json(timeline, out);
  }
  out.flush();
  file.finish();
}

}  // namespace weir::trace
