// What comes from outside is not trusted: messages, whole or damaged, strangers, and a hub that hears nonsense.
#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include "ranks/control.hpp"
#include "ranks/hub.hpp"
#include "ranks/join.hpp"
#include "ranks/message.hpp"
#include "ranks/socket_link.hpp"
#include "support/between_looks.hpp"

namespace {

using weir::detail::Connection;
using weir::detail::Control;
using weir::detail::ControlMessage;
using weir::detail::FrameReader;
using weir::detail::Hub;
using weir::detail::RankClock;
using weir::detail::Socket;
using weir::detail::SocketError;
using weir::detail::SocketLink;
using weir::detail::Transfer;
using Type = ControlMessage::Type;

ControlMessage some_message(std::mt19937& random) {
  ControlMessage message;
  message.type = static_cast<Type>(random() % (static_cast<unsigned>(Type::last) + 1));
  for (unsigned i = random() % 8; i > 0; --i) message.numbers.push_back(random() % 4 == 0 ? random() : random() % 4);
  for (unsigned i = random() % 4; i > 0; --i) message.texts.push_back(std::string(random() % 50, 'x'));
  return message;
}

Control::Settings settings_of(int rank, int size, int port, const std::string& secret = "secret") {
  Control::Settings settings;
  settings.rank = rank;
  settings.size = size;
  settings.secret = secret;
  settings.address = "127.0.0.1";
  settings.port = port;
  settings.deadline = RankClock::now() + std::chrono::seconds(20);
  return settings;
}

}  // namespace

TEST(ControlMessages, come_back_as_they_were) {
  std::mt19937 random(1);
  FrameReader reader;
  for (int i = 0; i < 2000; ++i) {
    const ControlMessage message = some_message(random);
    const std::string frame = weir::detail::frame_of(message);
    reader.add(frame.substr(0, frame.size() / 2));
    EXPECT_FALSE(reader.next());
    reader.add(frame.substr(frame.size() / 2));
    const auto read = reader.next();
    ASSERT_TRUE(read);
    EXPECT_EQ(read->type, message.type);
    EXPECT_EQ(read->numbers, message.numbers);
    EXPECT_EQ(read->texts, message.texts);
  }
}

TEST(ControlMessages, a_text_that_is_too_long_is_cut) {
  const std::string frame = weir::detail::frame_of({Type::report, {}, {std::string(100'000, 'x')}});
  const auto read = weir::detail::parse_message(std::string_view(frame).substr(4));
  ASSERT_TRUE(read);
  EXPECT_EQ(read->texts.at(0).size(), weir::detail::longest_text);
}

TEST(ControlMessages, damaged_ones_are_refused_or_read_and_never_more) {
  std::mt19937 random(2);
  for (int i = 0; i < 100'000; ++i) {
    std::string frame = weir::detail::frame_of(some_message(random));
    for (unsigned n = 1 + random() % 4; n > 0; --n) frame[random() % frame.size()] = static_cast<char>(random());
    if (random() % 3 == 0) frame.resize(random() % frame.size());
    FrameReader reader(1024);
    reader.add(frame);
    while (reader.next()) {
    }
  }
}

TEST(ControlMessages, a_length_beyond_the_bound_is_no_message) {
  FrameReader reader(1024);
  reader.add({"\xff\xff\xff\x7f", 4});
  EXPECT_FALSE(reader.next());
  EXPECT_TRUE(reader.broken());
}

TEST(ControlHub, hears_any_nonsense) {
  std::mt19937 random(3);
  std::size_t told = 0;
  for (int round = 0; round < 300; ++round) {
    Hub hub({"a", "b", "c"}, [&](int rank, const ControlMessage& message) {
      EXPECT_GE(rank, 0);
      EXPECT_LT(rank, 3);
      // What it says can be read.
      const std::string frame = weir::detail::frame_of(message);
      EXPECT_TRUE(weir::detail::parse_message(std::string_view(frame).substr(4)));
      ++told;
    });
    for (int i = 0; i < 300; ++i) {
      const ControlMessage message = some_message(random);
      if (message.type == Type::bye && random() % 100 != 0) continue;  // there would soon be nobody left
      hub.take(static_cast<int>(random() % 3), message);
      if (random() % 1000 == 0) hub.died(static_cast<int>(random() % 3), "it was killed");
      if (random() % 20 == 0) hub.look(RankClock::now() + std::chrono::seconds(10));
    }
  }
  EXPECT_GT(told, 1000u);
}

TEST(ControlJoin, strangers_are_sent_away_and_the_ranks_come_all_the_same) {
  auto [listening, port] = weir::detail::listen_at("127.0.0.1", 0);
  std::atomic<bool> over{false};
  std::vector<Socket> silent;  // to the end: who is gone is refused for that
  std::thread strangers([port = port, &over, &silent] {
    std::mt19937 random(4);
    for (int i = 0; i < 60; ++i) {
      Socket one = weir::detail::connect_to("127.0.0.1", port, RankClock::now() + std::chrono::seconds(5));
      if (!one.open()) break;
      std::string bytes(random() % 2000, '\0');
      for (char& byte : bytes) byte = static_cast<char>(random());
      if (i % 3 == 0)
        bytes = weir::detail::frame_of(
            {Type::hello, {weir::detail::rank_protocol, 1, 2, 0, 0, 0, 0, 0, 0}, {"not the secret", "x", ""}});
      if (i % 3 == 1) bytes.clear();
      send(one.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (i % 2 == 0) silent.push_back(std::move(one));
    }
    over.store(true);
  });
  std::unique_ptr<Control> other;
  std::thread second([&other, &over, port = port] {
    for (int looks = 0; !over.load(); ++looks) weir_test::between_looks(looks);  // behind all of them
    try {
      other = std::make_unique<Control>(settings_of(1, 2, port));
    } catch (const SocketError&) {
    }
  });
  Control::Settings settings = settings_of(0, 2, port);
  settings.listening = std::move(listening);
  const Control control(std::move(settings));
  strangers.join();
  second.join();
  EXPECT_NE(other, nullptr) << "somebody else had its place";
  EXPECT_GE(control.refused(), 20u);  // those with a wrong secret, at least
  EXPECT_EQ(control.peers().size(), 2u);
  // Nobody can come any more.
  EXPECT_FALSE(weir::detail::connect_to("127.0.0.1", port, RankClock::now() + std::chrono::seconds(5)).open());
}

TEST(ControlJoin, who_did_not_come_is_named) {
  auto [listening, port] = weir::detail::listen_at("127.0.0.1", 0);
  Control::Settings settings = settings_of(0, 3, port);
  settings.listening = std::move(listening);
  settings.deadline = RankClock::now() + std::chrono::milliseconds(100);
  try {
    const Control control(std::move(settings));
    FAIL() << "nobody was missed";
  } catch (const SocketError& error) {
    EXPECT_EQ(error.what, "these ranks did not come: 1, 2");
  }
}

/// Why `rank` of four cannot join. Rank 0 listens at `listening`.
std::optional<SocketError> heard_by(int rank, int port, Socket listening = Socket()) {
  Control::Settings settings = settings_of(rank, 4, port);
  settings.listening = std::move(listening);
  settings.deadline = RankClock::now() + std::chrono::seconds(50);
  try {
    const Control control(std::move(settings));
  } catch (const SocketError& error) {
    return error;
  }
  return std::nullopt;
}

/// Connected to rank 0, and whether it lets this one in.
std::pair<Connection, bool> comes_as(std::uint64_t rank, int port, std::uint64_t job = 0) {
  const auto until = RankClock::now() + std::chrono::seconds(20);
  Connection connection(weir::detail::connect_to("127.0.0.1", port, until));
  connection.queue({Type::hello, {weir::detail::rank_protocol, rank, 4, job, 1, 0, 0, 0, 0}, {"secret", "there", ""}});
  std::optional<ControlMessage> answer;
  while (!answer && connection.move() && RankClock::now() < until) answer = connection.reader().next();
  return {std::move(connection), answer && answer->type == Type::alive};
}
Connection let_in_as(std::uint64_t rank, int port) {
  auto [connection, let_in] = comes_as(rank, port);
  EXPECT_TRUE(let_in);
  return std::move(connection);
}

TEST(ControlJoin, a_rank_that_is_there_and_one_of_another_job_are_not_let_in) {
  auto [listening, port] = weir::detail::listen_at("127.0.0.1", 0);
  std::thread rank0([at = std::move(listening), port = port]() mutable { heard_by(0, port, std::move(at)); });
  const Connection first = let_in_as(1, port);
  EXPECT_FALSE(comes_as(1, port).second);
  EXPECT_FALSE(comes_as(2, port, 7).second);
  EXPECT_FALSE(comes_as(4, port).second);
  let_in_as(2, port);  // and gone, so that nobody waits for rank 3
  rank0.join();
}

TEST(ControlJoin, a_rank_that_is_gone_before_all_have_come_is_told_to_the_others_at_once) {
  auto [listening, port] = weir::detail::listen_at("127.0.0.1", 0);
  std::optional<SocketError> heard;
  std::thread rank0(
      [&, at = std::move(listening), port = port]() mutable { heard = heard_by(0, port, std::move(at)); });
  Connection other = let_in_as(1, port);
  let_in_as(2, port);  // and gone
  rank0.join();
  const std::string why = "rank 2 (there) came, and its process is gone before all ranks had come";
  ASSERT_TRUE(heard);
  EXPECT_EQ(heard->kind, SocketError::Kind::gone);
  EXPECT_EQ(heard->what, why);
  other.move();
  const std::optional<ControlMessage> told = other.reader().next();
  ASSERT_TRUE(told && told->type == Type::dead);
  EXPECT_EQ(told->texts.at(0), why);
}

TEST(ControlJoin, a_first_rank_that_says_so_or_is_gone_is_no_timeout) {
  for (const bool says : {true, false}) {
    auto [listening, port] = weir::detail::listen_at("127.0.0.1", 0);
    std::thread rank0([says, at = std::move(listening)] {
      Connection guest{Socket()};
      while (!guest.open()) guest = Connection(weir::detail::accept_from(at));
      for (int looks = 0; !guest.reader().next() && guest.move(); ++looks) weir_test::between_looks(looks);
      guest.queue({Type::alive, {}, {}});
      if (says) guest.queue({Type::dead, {2, static_cast<std::uint64_t>(SocketError::Kind::gone)}, {"rank 2 is gone"}});
      for (int looks = 0; guest.has_to_write() && guest.move(); ++looks) weir_test::between_looks(looks);
    });
    const auto heard = heard_by(1, port);
    rank0.join();
    ASSERT_TRUE(heard);
    EXPECT_EQ(heard->kind, SocketError::Kind::gone);
    EXPECT_EQ(heard->what, says ? "rank 2 is gone" : "rank 0's process is gone before all ranks had come");
  }
}

/// More than are kept at a time, and none is waited for. A rank whose connection is closed among them comes again.
TEST(ControlLink, strangers_that_say_nothing_hold_nobody_up) {
  auto [listening, port] = weir::detail::listen_at("127.0.0.1", 0);
  const std::vector<Control::Peer> peers = {{"a", "127.0.0.1", port}, {"b", "127.0.0.1", 0}};
  const auto deadline = RankClock::now() + std::chrono::seconds(20);
  const auto links = [&](int rank, Socket at) {
    try {
      const SocketLink link(rank, peers, std::move(at), "secret", deadline);
      return true;
    } catch (const SocketError&) {
      return false;
    }
  };
  bool other_links = false;
  std::thread other([&, port = port] {
    std::vector<Socket> silent;
    for (int i = 0; i < 300; ++i) silent.push_back(weir::detail::connect_to("127.0.0.1", port, deadline));
    other_links = links(1, weir::detail::listen_at("127.0.0.1", 0).first);
  });
  EXPECT_TRUE(links(0, std::move(listening)));
  other.join();
  EXPECT_TRUE(other_links);
}

TEST(ControlLink, a_peer_that_sends_nonsense_is_lost_and_harms_nobody) {
  std::mt19937 random(5);
  for (int round = 0; round < 60; ++round) {
    auto [listening, port] = weir::detail::listen_at("127.0.0.1", 0);
    const std::vector<Control::Peer> peers = {{"a", "127.0.0.1", port}, {"b", "127.0.0.1", 0}};
    Socket hostile;
    std::thread other([&, port = port] {
      hostile = weir::detail::connect_to("127.0.0.1", port, RankClock::now() + std::chrono::seconds(20));
      const std::string hello = weir::detail::frame_of({Type::hello, {1}, {"secret"}});
      send(hostile.get(), hello.data(), hello.size(), MSG_NOSIGNAL);
      char welcome = 0;
      pollfd file{hostile.get(), POLLIN, 0};
      poll(&file, 1, 20'000);
      recv(hostile.get(), &welcome, 1, 0);
      std::string bytes;
      for (int i = 0; i < 40; ++i) {
        // Heads that make sense in part, and bytes that make none.
        std::uint32_t head[6] = {static_cast<std::uint32_t>(random() % 5),   static_cast<std::uint32_t>(random() % 3),
                                 static_cast<std::uint32_t>(random() % 300), 0,
                                 static_cast<std::uint32_t>(random() % 4),   0};
        bytes.append(reinterpret_cast<const char*>(head), sizeof head);
        bytes.append(random() % 300, static_cast<char>(random()));
      }
      send(hostile.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
      shutdown(hostile.get(), SHUT_WR);
    });
    SocketLink link(0, peers, std::move(listening), "secret", RankClock::now() + std::chrono::seconds(20));
    other.join();
    std::vector<std::byte> to(100), from(20'000);
    Transfer receives[3], sends;
    for (std::uint32_t tag = 0; tag < 3; ++tag) link.receive(receives[tag], 1, tag, to.data(), to.size());
    link.send(sends, 1, 0, from.data(), from.size());
    const auto over = [](const Transfer& one) { return one.state != Transfer::State::under_way; };
    while (!over(receives[0]) || !over(receives[1]) || !over(receives[2])) {
      for (Transfer& one : receives) link.test(one);
    }
    EXPECT_TRUE(link.cancel(sends));
  }
}
