// The legacy default stream: it waits for all blocking streams and they for it; non-blocking streams take no part.
#include <cstdio>
#include <future>

#include <weir/weir.hpp>

struct Touch {
  WEIR_KERNEL void operator()(std::size_t i, weir::View<int> data) const { ++data[i]; }
};

bool all_right = true;

void expect(bool right, const char* statement) {
  std::printf("  %-66s %s\n", statement, right ? "yes" : "NO");
  all_right = all_right && right;
}

int main(int argc, char** argv) {
  const weir::Device device = argc > 1 ? weir::device(argv[1]) : weir::default_device();
  weir::Stream blocking(device, {.name = "blocking"});
  weir::Stream later(device, {.name = "later"});
  weir::Stream independent(device, {.blocking = false, .name = "independent"});
  const weir::StreamRef legacy = weir::legacy_stream(device);

  // One array each, all zero before the demonstration begins.
  auto a = weir::zeros<int>(blocking, 1);
  auto b = weir::zeros<int>(legacy, 1);
  auto c = weir::zeros<int>(later, 1);
  auto d = weir::zeros<int>(independent, 1);
  device.synchronize();

  // A host function that waits holds the blocking stream until `open` is set.
  std::promise<void> open;
  weir::host_call(blocking, [opened = open.get_future().share()] { opened.wait(); });
  weir::launch(blocking, 1, Touch{}, weir::inout(a));
  weir::launch(legacy, 1, Touch{}, weir::inout(b));
  weir::launch(later, 1, Touch{}, weir::inout(c));
  weir::launch(independent, 1, Touch{}, weir::inout(d));

  std::printf("%s, while a blocking stream is held:\n", device.name().c_str());
  independent.synchronize();
  expect(independent.done(), "a non-blocking stream has run");
  expect(!legacy.done(), "the legacy stream waits for the blocking stream");
  expect(!later.done(), "another blocking stream waits for the legacy stream");

  open.set_value();
  device.synchronize();
  std::printf("after it was let go:\n");
  expect(blocking.done() && legacy.done() && later.done(), "all have run");
  expect(a.to_host()[0] == 1 && b.to_host()[0] == 1, "once each");
  expect(c.to_host()[0] == 1 && d.to_host()[0] == 1, "the later and the independent stream too");

  // Calls without a stream do not use the legacy stream: each device has a current stream, an ordinary one.
  expect(!(weir::get_stream(device) == legacy), "the current stream is another one");
  return all_right ? 0 : 1;
}
