// Recordings as scenario files: one line for each part and command.
#include <charconv>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include <weir/recording.hpp>

#include "recording/file_output.hpp"
#include "recording/parts.hpp"

namespace weir {

namespace recorded {

namespace {

/// The length of the UTF-8 character that begins here; 0 if none does.
std::size_t character(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned first = byte(0);
  const std::size_t length = first < 0x80   ? 1
                             : first < 0xc2 ? 0
                             : first < 0xe0 ? 2
                             : first < 0xf0 ? 3
                             : first < 0xf5 ? 4
                                            : 0;
  if (length == 0 || length > text.size()) return 0;
  for (std::size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return 0;
  }
  if (length < 3) return length;
  const unsigned second = byte(1);
  const bool wrong = (first == 0xe0 && second < 0xa0) || (first == 0xed && second > 0x9f) ||
                     (first == 0xf0 && second < 0x90) || (first == 0xf4 && second > 0x8f);
  return wrong ? 0 : length;
}

class Writer {
 public:
  Writer(const Recording& recording, std::function<void(std::string_view)> sink)
      : recording_(recording), sink_(std::move(sink)) {}

  void all() {
    text_ = "{\"format\": \"weir.scenario\", \"version\": 1";
    text_member("name", recording_.name);
    text_member("about", recording_.about);
    text_ += ",\n";
    if (!recording_.devices().empty()) {
      list("devices", recording_.devices().size(), [this](std::size_t i) { device(recording_.devices()[i]); });
      text_ += ",\n";
    }
    if (!recording_.threads().empty()) {
      list("threads", recording_.threads().size(),
           [this](std::size_t i) { string(recording_.text(recording_.threads()[i])); });
      text_ += ",\n";
    }
    list("streams", recording_.streams().size(), [this](std::size_t i) { stream(recording_.streams()[i]); });
    text_ += ",\n";
    if (!recording_.events().empty()) {
      list("events", recording_.events().size(), [this](std::size_t i) { event(recording_.events()[i]); });
      text_ += ",\n";
    }
    list("buffers", recording_.buffers().size(), [this](std::size_t i) { buffer(recording_.buffers()[i]); });
    text_ += ",\n";
    list("program", recording_.size(), [this](std::size_t i) {
      note_parts(i);
      commands(recording_.command(i));
    });
    if (!parts_.empty()) {
      text_ += ",\n";
      list("x-collectives", parts_.size(), [this](std::size_t i) { collective(parts_[i]); });
    }
    if (!works_.empty()) {
      text_ += ",\n";
      list("x-host-work", works_.size(), [this](std::size_t i) { work(*works_[i].work, works_[i].place); });
    }
    text_ += "}\n";
    sink_(text_);
  }

 private:
  template <class One>
  void list(const char* name, std::size_t count, const One& one) {
    key(name);
    text_ += '[';
    for (std::size_t i = 0; i < count; ++i) {
      text_ += i == 0 ? "\n  " : ",\n  ";
      one(i);
      sink_(text_);
      text_.clear();
    }
    text_ += ']';
  }

  void string(std::string_view value) {
    static constexpr char digits[] = "0123456789abcdef";
    text_ += '"';
    while (!value.empty()) {
      const std::size_t length = character(value);
      const auto first = static_cast<unsigned char>(value.front());
      if (length == 0) {
        text_ += "\\ufffd";
      } else if (first == '"' || first == '\\') {
        text_ += '\\';
        text_ += value.front();
      } else if (first < 0x20) {
        text_ += "\\u00";
        text_ += digits[first >> 4];
        text_ += digits[first & 15];
      } else {
        text_ += value.substr(0, length);
      }
      value.remove_prefix(length == 0 ? 1 : length);
    }
    text_ += '"';
  }
  void key(const char* name) {
    if (!text_.empty() && text_.back() != '{' && text_.back() != '\n') text_ += ", ";
    text_ += '"';
    text_ += name;
    text_ += "\": ";
  }
  void text_member(const char* name, Name value) {
    if (value == none) return;
    key(name);
    string(recording_.text(value));
  }
  void word(const char* name, std::string_view value) {
    key(name);
    string(value);
  }
  template <class Number>
  void number(const char* name, Number value) {
    key(name);
    char digits[32];
    const auto end = std::to_chars(digits, digits + sizeof(digits), value);
    text_.append(digits, end.ptr);
  }
  void truth(const char* name, bool value) {
    key(name);
    text_ += value ? "true" : "false";
  }
  template <class Parts>
  void part(const char* name, const Parts& parts, std::uint32_t place) {
    if (place != none && place < parts.size()) text_member(name, parts[place].name);
  }
  /// The first device is what is meant where none is named.
  void device_member(std::uint32_t place) {
    if (place != 0) part("device", recording_.devices(), place);
  }

  void device(const Device& device) {
    text_ += '{';
    text_member("name", device.name);
    text_member("profile", device.profile);
    text_ += '}';
  }
  void stream(const Stream& stream) {
    static constexpr const char* kinds[] = {"blocking", "non_blocking", "legacy", "per_thread"};
    text_ += '{';
    text_member("name", stream.name);
    device_member(stream.device);
    word("kind", kinds[static_cast<int>(stream.kind)]);
    if (stream.priority != 0) number("priority", stream.priority);
    if (stream.thread != 0) text_member("thread", recording_.threads()[stream.thread]);
    if (stream.later) truth("later", true);
    text_ += '}';
  }
  void event(const Event& event) {
    text_ += '{';
    text_member("name", event.name);
    device_member(event.device);
    if (event.timed) truth("timed", true);
    if (event.later) truth("later", true);
    text_ += '}';
  }
  void buffer(const Buffer& buffer) {
    static constexpr const char* kinds[] = {"pageable", "pinned", "device"};
    text_ += '{';
    text_member("name", buffer.name);
    word("kind", kinds[static_cast<int>(buffer.kind)]);
    device_member(buffer.device);
    number("bytes", buffer.bytes);
    if (buffer.owner != Owner::array) word("owner", buffer.owner == Owner::pool ? "pool" : "user");
    part("home", recording_.streams(), buffer.home);
    if (buffer.later) word("start", "later");
    if (!buffer.written) word("contents", "unwritten");
    text_ += '}';
  }

  void use(const Use& use, bool with_access) {
    static constexpr const char* accesses[] = {"in", "out", "inout", "accumulate"};
    const bool named = with_access && use.access != recorded::Access::in;
    const bool to_the_end = use.dimensions == 0 && use.offset + use.bytes == recording_.buffers()[use.buffer].bytes;
    const char* buffer = recording_.text(recording_.buffers()[use.buffer].name);
    if (!named && to_the_end && use.offset == 0 && !use.raw) return string(buffer);
    text_ += '{';
    word("buffer", buffer);
    if (use.offset != 0) number("offset", use.offset);
    if (!to_the_end) number("bytes", use.bytes);
    if (use.dimensions != 0) {
      key("repeat");
      text_ += '[';
      for (std::size_t d = 0; d < use.dimensions; ++d) {
        text_ += (d == 0 ? "[" : ", [") + std::to_string(use.repeat[d].count) + ", " +
                 std::to_string(use.repeat[d].stride) + ']';
      }
      text_ += ']';
    }
    if (named) word("access", accesses[static_cast<int>(use.access)]);
    if (use.raw) truth("raw", true);
    text_ += '}';
  }
  /// Under the names that an op has for them.
  template <class UseAt>
  void uses(Op op, bool ends, std::size_t count, const UseAt& at) {
    const bool sides = op == Op::copy || op == Op::fill || ends;
    if (sides) {
      static constexpr const char* names[] = {"to", "from"};
      for (std::size_t i = 0; i < count; ++i) {
        const Use side = at(i);
        key(names[i]);
        use(fits_files(side) ? side : in_one_piece(side), false);
      }
    } else if (op == Op::host_open) {
      key("use");
      use(at(0), true);
    } else if (op == Op::if_ || op == Op::switch_ || op == Op::while_) {
      key("condition");
      use(at(0), false);
    } else if (count > 0 || op == Op::host_read || op == Op::host_write || op == Op::update_node) {
      key("uses");
      text_ += '[';
      for (std::size_t i = 0; i < count; ++i) {
        const Use all = at(i);
        for (std::uint64_t part = 0; part < parts_for_files(all); ++part) {
          if (i + part > 0) text_ += ", ";
          use(part_of(all, part), true);
        }
      }
      text_ += ']';
    }
  }
  void cost(Op op, const std::optional<Cost>& cost) {
    if (!cost) return;
    if (op == Op::work) return number("ns", cost->ns.value_or(0));
    key("cost");
    text_ += '{';
    if (cost->ns) number("ns", *cost->ns);
    if (cost->bytes) number("bytes", *cost->bytes);
    if (cost->blocks) number("blocks", *cost->blocks);
    if (cost->threads) number("threads", *cost->threads);
    if (cost->block_ns) number("block_ns", *cost->block_ns);
    if (cost->shared_bytes) number("shared_bytes", *cost->shared_bytes);
    text_ += '}';
  }
  /// A call of a collective, a node that is one, or a wait that comes from one: the schema has no members for them in commands.
  struct Part {
    std::size_t command;  ///< of the recording
    std::uint64_t place;  ///< in the file
    std::size_t node = none;
  };
  void note_parts(std::size_t i) {
    const Command& command = recording_.command(i);
    if (recording_.collective(command) || (command.flag && command.target_kind == Target::stream))
      parts_.push_back({i, written_});
    const auto nodes = recording_.nodes(command);
    for (std::size_t node = 0; node < nodes.size(); ++node) {
      if (nodes[node].communicator != 0) parts_.push_back({i, written_, node});
    }
    for (const NodeWork& work : recording_.works(command)) works_.push_back({&work, written_});
  }
  void work(const NodeWork& work, std::uint64_t place) {
    text_ += '{';
    number("command", place);
    text_member("node", work.node);
    number("ns", work.ns);
    text_ += '}';
  }
  void collective(const Part& part) {
    const Command& command = recording_.command(part.command);
    text_ += '{';
    number("command", part.place);
    if (part.node != none) {
      const Node& node = recording_.nodes(command)[part.node];
      text_member("node", node.name);
      number("communicator", node.communicator);
      text_member("name", node.communicator_name);
    } else if (const auto made = recording_.collective(command)) {
      number("communicator", made->communicator);
      text_member("name", made->name);
      if (made->number != 0) number("number", made->number);
      if (made->unit != 0) number("unit", made->unit);
      number("rank", made->rank);
      if (made->ranks != 0) number("ranks", made->ranks);
      if (made->from >= 0) number("from", made->from);
      if (made->to >= 0) number("to", made->to);
    }
    text_ += '}';
  }
  void target(Op op, Target kind, std::uint32_t place) {
    switch (kind) {
      case Target::none: return;
      case Target::stream: return part(op == Op::wait ? "for" : "stream", recording_.streams(), place);
      case Target::event: return part("event", recording_.events(), place);
      case Target::device:
        if (recording_.devices().empty()) return word("device", "dev0");
        return part("device", recording_.devices(), place);
      case Target::buffer: return part("buffer", recording_.buffers(), place);
      case Target::graph: return text_member("graph", place);
      case Target::scope:
        if (part_ == 0) return text_member("scope", place);
        return word("scope", std::string(recording_.text(place)) + "." + std::to_string(part_));
      case Target::hand_off: return text_member("name", place);
      case Target::all: return truth("all", true);
    }
  }
  void place(Name file, std::uint32_t line) {
    text_member("file", file);
    if (line != none) number("line", line);
  }

  /// One, or as many as files need for it: a side of a copy or fill, or what a scope opens, is one use there.
  void commands(const Command& one) {
    std::uint64_t parts = 1;
    if (one.op == Op::copy || one.op == Op::fill || one.op == Op::host_open)
      parts = parts_for_files(recording_.use(one, 0));
    if (one.op == Op::host_open && parts > 1) scopes_in_parts_[one.target] = parts;
    if (const auto found = scopes_in_parts_.find(one.target);
        one.op == Op::host_close && found != scopes_in_parts_.end()) {
      parts = found->second;
      scopes_in_parts_.erase(found);
    }
    for (part_ = 0; part_ < parts; ++part_) {
      if (part_ > 0) text_ += ",\n  ";
      command(one, [&](std::size_t i) {
        const Use all = recording_.use(one, i);
        return parts > 1 ? part_of(all, part_) : all;
      });
    }
    part_ = 0;
    written_ += parts;
  }

  template <class UseAt>
  void command(const Command& command, const UseAt& use_at) {
    text_ += '{';
    if (part_ == 0) text_member("id", command.id);
    word("op", to_text(command.op));
    if (command.thread != 0) text_member("thread", recording_.threads()[command.thread]);
    if (command.op != Op::build_graph) part("stream", recording_.streams(), command.stream);
    target(command.op, command.target_kind, command.target);
    text_member(command.op == Op::update_node || command.op == Op::enable_node ? "node" : "name", command.name);
    if (command.op == Op::query) truth("answer", command.flag);
    if (command.op == Op::enable_node) truth("enabled", command.flag);
    if (command.flag && command.target_kind == Target::event && (command.op == Op::record || command.op == Op::wait))
      truth("external", true);
    uses(command.op, command.ends, command.use_count, use_at);
    if (part_ == 0) cost(command.op, recording_.cost(command));
    if (const auto gives = recording_.gives(command); !gives.empty()) {
      key("gives");
      text_ += '[';
      for (std::size_t i = 0; i < gives.size(); ++i) {
        if (i > 0) text_ += ", ";
        string(recording_.text(gives[i]));
      }
      text_ += ']';
    }
    // Of a graph on the first device, none is named.
    if (command.op == Op::build_graph) {
      if (command.stream != none) part("device", recording_.devices(), command.stream);
      key("nodes");
      nodes(recording_.nodes(command));
    }
    place(command.file, command.line);
    text_ += '}';
  }

  void nodes(std::span<const Node> nodes) {
    text_ += '[';
    for (std::size_t i = 0; i < nodes.size(); ++i) {
      if (i > 0) text_ += ", ";
      node(nodes[i], nodes);
    }
    text_ += ']';
  }
  void node(const Node& node, std::span<const Node> list) {
    text_ += '{';
    text_member("name", node.name);
    word("op", to_text(node.op));
    if (!node.after.empty()) {
      key("after");
      text_ += '[';
      for (std::size_t i = 0; i < node.after.size(); ++i) {
        if (i > 0) text_ += ", ";
        string(recording_.text(list[node.after[i]].name));
      }
      text_ += ']';
    }
    target(node.op, node.target_kind, node.target);
    uses(node.op, false, node.uses.size(), [&](std::size_t i) { return node.uses[i]; });
    cost(node.op, node.cost);
    if (!node.bodies.empty()) {
      key("bodies");
      text_ += '[';
      for (std::size_t i = 0; i < node.bodies.size(); ++i) {
        if (i > 0) text_ += ", ";
        nodes(node.bodies[i]);
      }
      text_ += ']';
    }
    place(node.file, node.line);
    text_ += '}';
  }

  const Recording& recording_;
  std::function<void(std::string_view)> sink_;
  std::string text_;
  std::uint64_t part_ = 0;     ///< of a command that is several in files
  std::uint64_t written_ = 0;  ///< commands, in the file
  std::vector<Part> parts_;
  struct Work {
    const NodeWork* work;
    std::uint64_t place;  ///< of its launch, in the file
  };
  std::vector<Work> works_;
  std::map<Name, std::uint64_t> scopes_in_parts_;
};

}  // namespace

}  // namespace recorded

void save(const Recording& recording, const std::filesystem::path& path, SourceLocation where) {
  recorded::FileOutput file("weir::save", path, where);
  recorded::Writer(recording, [&](std::string_view text) { file.write(text); }).all();
  file.finish();
}

std::string to_json(const Recording& recording) {
  std::string all;
  recorded::Writer(recording, [&](std::string_view text) { all += text; }).all();
  return all;
}

}  // namespace weir
