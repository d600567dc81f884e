// Streams, memory and failures: what one thread of the soak does at a time.
#include <chrono>
#include <thread>

#include "soak.hpp"

namespace weir_soak {

namespace {

weir::Stream new_stream(Worker& w, weir::Device device) {
  return weir::Stream(device, {.priority = -static_cast<int>(w.below(3)), .blocking = w.one_in(3)});
}

std::size_t some_size(Worker& w) { return w.one_in(20) ? 1 + w.below(400'000) : 1 + w.below(2000); }

/// A chain of kernels over streams that come and go.
void chain(Worker& w) {
  const weir::Device device = w.device();
  weir::Stream s = new_stream(w, device);
  auto x = weir::zeros<int>(s, some_size(w));
  int sum = 0;
  for (std::uint64_t turn = w.below(20); turn > 0; --turn) {
    const int value = static_cast<int>(w.below(9));
    sum += value;
    if (w.one_in(3)) {
      weir::Stream t = new_stream(w, device);
      t.wait(s.record());
      weir::launch(t, x.size(), Add{}, weir::inout(x), value);
      s.wait(t.record());
    } else {
      weir::launch(s, x.size(), Add{}, weir::inout(x), value);
    }
  }
  expect_all(s, x, sum, "a chain of kernels");
}

/// Arrays that several streams used are dropped while these are busy.
void drop_in_use(Worker& w) {
  const weir::Device device = w.device();
  weir::Stream s = new_stream(w, device);
  for (int i = 0; i < 8; ++i) {
    auto x = weir::zeros<int>(s, some_size(w));
    auto pinned = weir::empty<int>(weir::pinned, x.size());
    weir::Stream t = new_stream(w, device);
    t.wait(s.record());
    weir::launch(t, x.size(), Add{}, weir::inout(x), 1);
    weir::copy(t, pinned, x);
    if (w.one_in(4)) s.wait(t.record());
    if (w.one_in(4)) weir::host_call(t, [kept = std::move(x)] {});
  }
}

/// From a device to the CPU and back, by events of both.
void across(Worker& w) {
  weir::Stream s = new_stream(w, w.device());
  const weir::Stream host(weir::device("cpu"), {.blocking = false});
  auto x = weir::zeros<int>(s, 64);
  auto there = weir::empty<int>(weir::pinned, 64);
  for (int turn = 1; turn <= 4; ++turn) {
    weir::launch(s, x.size(), Add{}, weir::inout(x), 1);
    weir::copy(s, there, x);
    host.wait(s.record());
    weir::launch(host, there.size(), Add{}, weir::inout(there), 1);
    s.wait(host.record());
    weir::copy(s, x, there);
  }
  expect_all(s, x, 8, "turns between a device and the CPU");
}

/// To and from pageable memory, staged and not.
void pageable(Worker& w) {
  weir::Stream s = new_stream(w, w.device());
  const std::size_t size = w.one_in(4) ? 300'000 + w.below(1'500'000) : 1 + w.below(50'000);
  const int value = static_cast<int>(w.below(1000));
  std::vector<int> host(size, value);
  auto x = weir::empty<int>(s, size);
  weir::copy(s, x, host);
  weir::launch(s, size, Add{}, weir::inout(x), 1);
  std::vector<int> back(size);
  weir::copy(s, back, x);
  s.synchronize();
  for (const int one : back) require(one == value + 1, "a copy from and to pageable memory");
}

void pin_in_place(Worker& w) {
  weir::Stream s = new_stream(w, w.device());
  std::vector<int> host(1024 + w.below(100'000), 5);
  weir::pin(host.data(), host.size() * sizeof(int));
  auto x = weir::zeros<int>(s, host.size());
  weir::copy(s, x, host);
  weir::launch(s, x.size(), Add{}, weir::inout(x), 1);
  weir::copy(s, host, x);
  s.synchronize();
  weir::unpin(host.data());
  for (const int one : host) require(one == 6, "a copy from and to memory pinned in place");
}

void pools(Worker& w) {
  const weir::Device device = w.device();
  if (w.one_in(2)) weir::default_pool(device).trim(w.below(3) << 20);
  weir::Stream s = new_stream(w, device);
  const weir::Pool own(device, {.release_threshold = w.below(2) << 24});
  auto x = weir::empty<int>(s, 1 + w.below(100'000), own);
  weir::fill(s, x, 3);
  auto y = weir::empty<int>(s, x.size(), own);
  weir::copy(s, y, x);
  x.free();
  if (w.one_in(2)) own.trim();
  expect_all(s, y, 3, "memory of a pool of its own");
}

/// A host function throws: what is behind it does nothing, and the failure is told once.
void fail(Worker& w) {
  const weir::Device device = w.device();
  const std::uint64_t failure = w.soak.ledger.open();
  {
    const weir::Stream s(device, {.blocking = false});
    auto x = weir::zeros<int>(s, 100);
    weir::launch(s, x.size(), Add{}, weir::inout(x), 1);
    weir::host_call(s, [failure] { throw std::runtime_error("soak failure " + std::to_string(failure) + ";"); });
    weir::launch(s, x.size(), Add{}, weir::inout(x), 1);
    bool told_here = false;
    try {
      s.synchronize();
    } catch (const weir::Error& error) {
      w.soak.ledger.told(error);
      told_here = true;
    }
    // Somebody else, who synchronises the device, may be about to say so.
    const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(30);
    while (w.soak.ledger.times_told(failure) == 0 && std::chrono::steady_clock::now() < limit) {
      std::this_thread::sleep_for(std::chrono::microseconds(20));
    }
    require(w.soak.ledger.times_told(failure) == 1, "a failure that is told once");
    if (told_here) return expect_all(s, x, 1, "an array behind a failure");
    // Who told it may have begun to wait between the host function and the kernel, which ran if it came behind the report.
    std::vector<int> host(x.size());
    weir::copy(s, host, x);
    s.synchronize();
    for (const int one : host)
      require(one == 1 || one == 2, "an array behind a failure that another thread was told of");
  }
}

void synchronize(Worker& w) {
  if (!w.one_in(4)) return;
  try {
    w.device().synchronize();
  } catch (const weir::Error& error) {
    if (error.errc() != weir::Errc::capture_unsupported) w.soak.ledger.told(error);
  }
}

void between_devices(Worker& w) {
  if (w.soak.devices.size() < 2) return;
  const std::size_t first = w.device_number();
  const weir::Stream a(w.soak.devices[first], {.blocking = false});
  const weir::Stream b(w.soak.devices[(first + 1) % w.soak.devices.size()], {.blocking = false});
  auto x = weir::full<int>(a, some_size(w), 4);
  auto y = weir::empty<int>(b, x.size());
  b.wait(a.record());
  weir::copy(b, y, x);
  weir::launch(b, y.size(), Add{}, weir::inout(y), 1);
  a.wait(b.record());
  expect_all(b, y, 5, "a copy between devices");
}

}  // namespace

void Ledger::told(const weir::Error& error) {
  const std::string text = error.what();
  const std::string mark = "soak failure ";
  const std::size_t at = text.find(mark);
  if (at == std::string::npos) throw error;
  const std::uint64_t failure = std::stoull(text.substr(at + mark.size()));
  const std::lock_guard guard(mutex_);
  if (++told_[failure] > 1) throw std::runtime_error("told twice: " + text);
}

std::size_t Ledger::times_told(std::uint64_t failure) const {
  const std::lock_guard guard(mutex_);
  const auto found = told_.find(failure);
  return found == told_.end() ? 0 : found->second;
}

void require(bool holds, const std::string& what) {
  if (!holds) throw std::runtime_error("wrong: " + what);
}

void expect_all(const weir::Stream& stream, const weir::Array<int>& x, int value, const char* what) {
  std::vector<int> host(x.size());
  weir::copy(stream, host, x);
  stream.synchronize();
  for (const int one : host) {
    if (one == value) continue;
    throw std::runtime_error("wrong: " + std::string(what) + ": " + std::to_string(one) + ", not " +
                             std::to_string(value));
  }
}

const std::vector<Action>& stream_actions() {
  static const std::vector<Action> all{
      {"chain", &chain},       {"drop_in_use", &drop_in_use},   {"across", &across},
      {"pageable", &pageable}, {"pin_in_place", &pin_in_place}, {"pools", &pools},
      {"fail", &fail},         {"synchronize", &synchronize},   {"between_devices", &between_devices}};
  return all;
}

}  // namespace weir_soak
