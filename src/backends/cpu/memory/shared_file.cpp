// Memory that processes share.
#include "backends/cpu/memory/shared_file.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <new>
#include <string>

#include "backends/cpu/memory/address_map.hpp"

namespace weir::cpu {

SharedFile::~SharedFile() {
  if (number_ >= 0) ::close(number_);
}

void* SharedFile::take(std::size_t bytes, std::uint64_t& offset) {
  if (number_ < 0) {
    const int made = memfd_create("weir pool", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    // Who maps it must never find it shorter: reading beyond its end is a signal, not an error.
    if (made < 0 || fcntl(made, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_SEAL) != 0) {
      if (made >= 0) ::close(made);
      return nullptr;
    }
    number_ = made;
  }
  if (ftruncate(number_, static_cast<off_t>(end_ + bytes)) != 0) return nullptr;
  void* data =
      mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, number_, static_cast<off_t>(end_));
  if (data == MAP_FAILED) return nullptr;
  offset = end_;
  end_ += bytes;
  return data;
}

void SharedFile::give(void* data, std::size_t bytes, std::uint64_t offset) noexcept {
  munmap(data, bytes);
  static_cast<void>(fallocate(number_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(offset),
                              static_cast<off_t>(bytes)));
}

void* map_shared(const Backend& backend, int device, const detail::MemorySharing::Foreign& foreign) {
  const auto refuse = [&](Errc code, const std::string& why) {
    throw Error(code, foreign.operation, foreign.object, why, foreign.where);
  };
  const detail::SharedMemory& memory = foreign.memory;
  struct stat facts {};
  const int seals = fcntl(memory.file, F_GET_SEALS);
  if (memory.file < 0 || fstat(memory.file, &facts) != 0 || seals < 0 || (seals & F_SEAL_SHRINK) == 0) {
    refuse(Errc::invalid_value, "the exporter sent no shared memory");
  }
  const auto size = static_cast<std::uint64_t>(facts.st_size);
  if (memory.bytes == 0 || memory.offset % SharedFile::page != 0 || memory.offset > size ||
      memory.bytes > size - memory.offset) {
    refuse(Errc::invalid_value, "the exporter's memory ends before the array");
  }
  const int protection = foreign.writable ? PROT_READ | PROT_WRITE : PROT_READ;
  void* data = mmap(nullptr, memory.bytes, protection, MAP_SHARED | MAP_NORESERVE, memory.file,
                    static_cast<off_t>(memory.offset));
  if (data == MAP_FAILED) {
    refuse(Errc::out_of_memory, "mapping " + std::to_string(memory.bytes) + " bytes: " + std::strerror(errno));
  }
  try {
    address_map().add(data, {memory.bytes, {MemoryKind::device, device, 0}, false, &backend});
  } catch (const std::bad_alloc&) {
    munmap(data, memory.bytes);
    refuse(Errc::out_of_memory, "no memory to note it");
  }
  return data;
}

void unmap_shared(void* data, const detail::SharedMemory& memory) noexcept {
  address_map().remove(data, false);
  munmap(data, memory.bytes);
}

}  // namespace weir::cpu
