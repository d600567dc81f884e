// From the members of a scenario file to a Recording: each declaration and command is checked as it comes.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <weir/recording.hpp>

#include "scenario/json_reader.hpp"
#include "scenario/names.hpp"
#include "scenario/value.hpp"

namespace weir::scenario {

/// A member refers to a list of the file that has not come yet: to be read again then.
struct NotYet {};

class Decoder final : public Members {
 public:
  explicit Decoder(std::size_t limit) : recording_(limit) {}

  bool is_list(std::string_view member) const override;
  void list_begins(std::string_view member) override;
  void element(std::string_view list, std::size_t index, Value value) override;
  void list_ends(std::string_view member) override;
  void member(std::string_view name, Value value) override;
  std::size_t room() const override;

  /// All was read: what was put off is read now, and the whole is checked.
  Recording finish();

 private:
  /// In the order in which they refer to each other.
  enum Section { devices, threads, streams, events, buffers, program, collectives, works, section_count };
  static constexpr std::string_view section_names[section_count] = {
      "devices", "threads", "streams", "events", "buffers", "program", "x-collectives", "x-host-work"};
  struct Later {
    std::size_t index;
    Value value;
  };

  void read(Section section, const At& at);
  void device(const At& at);
  void thread(const At& at);
  void stream(const At& at);
  void event(const At& at);
  void buffer(const At& at);
  void command(const At& at);
  void check_buffer(const At& at, const Buffer& buffer) const;

  // ---- parts of commands
  struct Draft {
    Command command;
    std::vector<Use> uses;
    std::optional<Cost> cost;
    std::vector<Name> gives;
    std::vector<Node> nodes;
    std::vector<std::uint32_t> allocated;  ///< buffers that it makes
  };
  void read_op(const At& at, Draft& draft);
  void run_on_stream(const At& at, Draft& draft);
  void copy(const At& at, Draft& draft);
  void memory(const At& at, Draft& draft);
  void record_or_wait(const At& at, Draft& draft);
  void synchronize(const At& at, Draft& draft);
  void query(const At& at, Draft& draft);
  void host_access(const At& at, Draft& draft);
  void hand_off(const At& at, Draft& draft);
  void make_or_drop(const At& at, Draft& draft);
  void capture_or_launch(const At& at, Draft& draft);
  void build_graph(const At& at, Draft& draft);
  void update_node(const At& at, Draft& draft);
  void enable_node(const At& at, Draft& draft);
  /// What the command changes for those behind it.
  void commit(const Draft& draft);
  void check_id(const At& at, Name id) const;

  // ---- nodes, in decode_nodes.cpp
  std::vector<Node> nodes(const At& at, Draft& draft);
  Node node(const At& at, Draft& draft);
  void node_work(const At& at, Node& node, Draft& draft);
  /// What the node of that path does. Faults if there is none.
  Op op_of(const At& path, Name graph) const;
  Op op_in(const At& path, std::string_view rest, Name graph) const;

  // ---- operands and names, in decode_operands.cpp
  Use operand(const At& at, const Draft& draft) const;
  std::vector<Use> operands(const At& at, const Draft& draft) const;
  /// `to` and `from` of the same number of bytes.
  void sides(const At& at, std::vector<Use>& uses, const Draft& draft) const;
  std::uint32_t live_buffer(const At& at, const Draft& draft) const;
  std::uint32_t allocated_buffer(const At& at, Draft& draft) const;
  Cost cost(const At& at) const;
  recorded::Collective call_of_rank(const At& at);
  std::uint64_t place_in_program(const At& at) const;
  void collective(const At& at);
  void host_work(const At& at);
  /// Its number, and what people call it.
  std::uint64_t communicator(const At& at, Name& name);
  Name text(const At& at) { return recording_.intern(at.string()); }
  Name name(const At& at) { return recording_.intern(at.name()); }
  std::uint32_t place(const At& at, Section section, const char* what) const;
  std::uint32_t stream_named(const At& at) const;
  std::uint32_t event_named(const At& at) const;
  Name graph_named(const At& at) const;
  void source_line(const At& at, Name& file, std::uint32_t& line);
  /// The name of a new part, which no other of its list has.
  Name new_name(const At& at, Section section);

  Recording recording_;
  PlaceOf places_[section_count];  ///< of program: the ids, by their commands
  bool complete_[section_count] = {};
  bool given_[section_count] = {};
  std::vector<Later> later_[section_count];
  std::size_t later_bytes_ = 0;
  bool format_ = false;
  bool version_ = false;

  // What is there at this place of the program.
  std::vector<bool> stream_made_;
  std::vector<bool> event_made_;
  std::vector<bool> buffer_made_;
  PlaceOf graphs_;  ///< by the command that made it
  PlaceOf scopes_;  ///< open ones
  bool graph_made_again_ = false;
  std::set<std::pair<Name, Name>> functions_;  ///< of graphs, by their paths: those that were looked up
};

}  // namespace weir::scenario
