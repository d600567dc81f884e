// What the driver, and its library for management, tell of the device's link. As libcuda.so.1 it has the one half, as
// libnvidia-ml.so.1 the other. There is no such device on the bus of any machine.
#include <cstdio>
#include <cstring>

extern "C" {
#if defined(WEIR_FAKE_DRIVER)
int cuDeviceGet(int* device, int number) {
  *device = number;
  return number == 0 ? 0 : 101;
}
int cuDeviceGetPCIBusId(char* text, int size, int device) {
  std::snprintf(text, static_cast<std::size_t>(size), "FFFF:FF:1F.%d", device);
  return 0;
}
#else
int nvmlInit_v2() { return 0; }
int nvmlShutdown() { return 0; }
int nvmlDeviceGetHandleByPciBusId_v2(const char* id, void** device) {
  static int only;
  *device = &only;
  return std::strcmp(id, "ffff:ff:1f.0") == 0 ? 0 : 6;
}
int nvmlDeviceGetMaxPcieLinkGeneration(void*, unsigned* generation) {
  *generation = 4;
  return 0;
}
int nvmlDeviceGetMaxPcieLinkWidth(void*, unsigned* lanes) {
  *lanes = 8;
  return 0;
}
#endif
}
