// Reading scenario files.
#include <new>

#include <weir/error.hpp>
#include <weir/recording.hpp>

#include "scenario/decoder.hpp"
#include "scenario/file_input.hpp"
#include "scenario/json_reader.hpp"

namespace weir {

namespace {

Recording read(const char* operation, scenario::FileInput& input, const std::string& name, const LoadOptions& options,
               SourceLocation where) {
  try {
    scenario::Decoder decoder(options.limit);
    scenario::read_json(input, decoder);
    return decoder.finish();
  } catch (const scenario::Fault& fault) {
    throw Error(Errc::invalid_value, operation, name,
                fault.path.empty() ? fault.message : fault.path + ": " + fault.message, where);
  } catch (const scenario::Unreadable& unreadable) {
    throw Error(Errc::invalid_value, operation, name, "it cannot be read: " + unreadable.message, where);
  } catch (const Error& error) {
    if (error.errc() != Errc::out_of_memory) throw;
    throw Error(Errc::out_of_memory, operation, name,
                "it takes more than the limit of " + std::to_string(options.limit) + " bytes", where);
  }
}

}  // namespace

Recording load_recording(const std::filesystem::path& path, const LoadOptions& options, SourceLocation where) {
  constexpr const char* operation = "weir::load_recording";
  try {
    scenario::FileInput input(path);
    return read(operation, input, path.string(), options, where);
  } catch (const scenario::Unreadable& unreadable) {
    throw Error(Errc::invalid_value, operation, path.string(), "it cannot be read: " + unreadable.message, where);
  }
}

Recording parse_recording(std::string_view text, const std::string& name, const LoadOptions& options,
                          SourceLocation where) {
  scenario::FileInput input(text);
  return read("weir::parse_recording", input, name, options, where);
}

}  // namespace weir
