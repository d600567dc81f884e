// Handles and messages from who knows whom: errors, never more.
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "core/ipc/wire.hpp"
#include "ipc/peer.hpp"
#include "support/any_device.hpp"
#include "support/errors.hpp"

namespace weir_test {
namespace {

namespace ipc = weir::detail::ipc;
using weir::Errc;

weir::Device cpu() { return weir::device("cpu"); }

struct Address {
  sockaddr_un name{};
  socklen_t size = 0;
};
Address address_of(const ipc::Secret& process) {
  Address address;
  address.name.sun_family = AF_UNIX;
  const std::string name = ipc::socket_name(process);
  std::memcpy(address.name.sun_path + 1, name.data(), name.size());
  address.size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  return address;
}

TEST(IpcHandles, that_are_damaged_are_errors) {
  const weir::Event event(cpu());
  const weir::EventHandle good = weir::export_event(event);
  std::mt19937 random(20261125);
  for (int i = 0; i < 3000; ++i) {
    weir::EventHandle bad = good;
    const int changes = 1 + static_cast<int>(random() % 4);
    for (int c = 0; c < changes; ++c)
      bad.bytes[random() % bad.bytes.size()] ^= static_cast<std::byte>(1 + random() % 255);
    if (bad == good) continue;
    ASSERT_TRUE(
        fails_with(Errc::invalid_value, [&] { static_cast<void>(weir::import_event(cpu(), bad)); }, {"handle"}));
    weir::ArrayHandle array;
    array.bytes = bad.bytes;
    ASSERT_TRUE(
        fails_with(Errc::invalid_value, [&] { static_cast<void>(weir::import_array<int>(cpu(), array)); }, {"handle"}));
  }
  EXPECT_TRUE(fails_with(Errc::invalid_value, [&] { static_cast<void>(weir::import_event(cpu(), {})); }, {"empty"}));
  weir::ArrayHandle other_kind;
  other_kind.bytes = good.bytes;
  EXPECT_TRUE(fails_with(Errc::invalid_value, [&] { static_cast<void>(weir::import_array<int>(cpu(), other_kind)); },
                         {"import_event"}));
  weir::EventHandle other_version = good;
  other_version.bytes[4] = std::byte{9};
  EXPECT_TRUE(fails_with(Errc::invalid_value, [&] { static_cast<void>(weir::import_event(cpu(), other_version)); },
                         {"version 9"}));
}

WEIR_SCENE(ipc_exports_to_strangers) {
  const Talk test = test_process();
  const weir::Pool pool(test_device(), {.shareable = true});
  const weir::Stream s(test_device());
  auto x = weir::empty<int>(s, 1000, pool);
  weir::fill(s, x, 3);
  s.synchronize();
  test.say(weir::export_array(x));
  test.await_nod();
}

ipc::Message random_message(std::mt19937& random) {
  ipc::Message message;
  std::vector<unsigned char> bytes(sizeof message);
  for (unsigned char& byte : bytes) byte = static_cast<unsigned char>(random() % 3 == 0 ? random() : 0);
  std::memcpy(static_cast<void*>(&message), bytes.data(), bytes.size());
  message.magic = ipc::Message{}.magic;
  message.kind = static_cast<ipc::MessageKind>(random() % 11);
  return message;
}

/// Whoever knocks at an exporter says what he likes: it goes on, and serves who asks properly.
TEST(IpcMessages, that_are_nonsense_end_one_connection_and_no_more) {
  Peer peer("ipc_exports_to_strangers", cpu());
  const auto handle = peer->hear<weir::ArrayHandle>();
  const ipc::Name name = ipc::name_of(ipc::ObjectKind::array, handle.bytes, "test", {});
  std::mt19937 random(20261126);
  for (int i = 0; i < 100; ++i) {
    const int socket = ::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    const Address address = address_of(name.process);
    ASSERT_EQ(::connect(socket, reinterpret_cast<const sockaddr*>(&address.name), address.size), 0);
    for (int k = 0; k < 20; ++k) {
      ipc::Message message = random_message(random);
      if (random() % 2 == 0) message.object = name.object;
      const std::size_t size = random() % 4 == 0 ? random() % sizeof message : sizeof message;
      if (::send(socket, &message, size, MSG_NOSIGNAL) < 0) break;  // it has closed
    }
    ::close(socket);
  }
  ipc::Name forged = name;
  forged.object = ipc::new_secret();
  EXPECT_TRUE(fails_with(Errc::already_freed, [&] {
    static_cast<void>(weir::import_array<int>(cpu(), {handle_of(ipc::ObjectKind::array, forged)}));
  }));
  const weir::Event unknown = weir::import_event(cpu(), {handle_of(ipc::ObjectKind::event, forged)});
  EXPECT_TRUE(fails_with(Errc::invalid_handle, [&] { static_cast<void>(unknown.done()); }));
  auto x = weir::import_array<int>(cpu(), handle);
  EXPECT_EQ(x.to_host(), std::vector<int>(1000, 3));
  peer->nod();
  EXPECT_TRUE(peer.ends_well());
}

/// An exporter that answers with nonsense: each answer is an error or an array that is really there.
TEST(IpcMessages, of_an_exporter_are_believed_in_nothing) {
  const ipc::Secret process = ipc::new_secret();
  const int listening = ::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
  const Address address = address_of(process);
  ASSERT_EQ(::bind(listening, reinterpret_cast<const sockaddr*>(&address.name), address.size), 0);
  ASSERT_EQ(::listen(listening, 8), 0);
  std::thread exporter([&] {
    std::mt19937 random(20261127);
    // Large enough for the array, but he could make it shorter at any moment.
    const int file = memfd_create("a stranger's", MFD_CLOEXEC);
    ASSERT_EQ(ftruncate(file, 1 << 20), 0);
    for (int socket = ::accept(listening, nullptr, nullptr); socket >= 0;
         socket = ::accept(listening, nullptr, nullptr)) {
      ipc::Message asked;
      while (::recv(socket, &asked, sizeof asked, 0) == sizeof asked) {
        ipc::Message answer = random_message(random);
        answer.request = asked.request;
        if (random() % 4 != 0) answer.kind = ipc::MessageKind::array_opened;
        if (random() % 4 != 0) std::memcpy(answer.backend.data(), "cpu", 4);
        if (random() % 4 != 0) answer.element_bytes = 4, answer.element_type = 0, answer.element_bits = 32;
        if (random() % 2 != 0) answer.rank = 1 + random() % 4;
        if (random() % 2 != 0) answer.bytes = random() % 100'000;
        if (random() % 2 != 0) {
          answer.rank = 1;
          answer.sizes[0] = 16;
          answer.begin = answer.offset = 0;
          answer.bytes = 4096;
        }
        iovec data{&answer, sizeof answer};
        msghdr packet{};
        packet.msg_iov = &data;
        packet.msg_iovlen = 1;
        alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
        if (random() % 2 == 0) {
          packet.msg_control = control;
          packet.msg_controllen = sizeof control;
          cmsghdr* first = CMSG_FIRSTHDR(&packet);
          first->cmsg_level = SOL_SOCKET;
          first->cmsg_type = SCM_RIGHTS;
          first->cmsg_len = CMSG_LEN(sizeof file);
          std::memcpy(CMSG_DATA(first), &file, sizeof file);
        }
        if (::sendmsg(socket, &packet, MSG_NOSIGNAL) < 0 || answer.kind != ipc::MessageKind::array_opened) break;
      }
      ::close(socket);
    }
    ::close(file);
  });
  for (int i = 0; i < 500; ++i) {
    const weir::ArrayHandle handle{handle_of(ipc::ObjectKind::array, {process, ipc::new_secret(), 1})};
    EXPECT_TRUE(error_of([&] { static_cast<void>(weir::import_array<int>(cpu(), handle)); }))
        << "no file of it is shared memory";
  }
  ::shutdown(listening, SHUT_RDWR);
  exporter.join();
  ::close(listening);
}

}  // namespace
}  // namespace weir_test
