// Plain loops over the memory of all ranks.
#include "backends/fake_cuda/nccl/loops.hpp"

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <type_traits>

namespace fake_nccl {

std::size_t bytes_of(int type) {
  switch (type) {
    case 0:
    case 1: return 1;
    case 6:
    case 9: return 2;
    case 2:
    case 3:
    case 7: return 4;
    default: return 8;
  }
}

namespace {

bool is_pair(const Call& call) { return call.kind == Kind::send || call.kind == Kind::receive; }

bool match(const Call& send, const Call& receive) {
  return send.kind == Kind::send && receive.kind == Kind::receive && send.peer == receive.rank &&
         receive.peer == send.rank && send.count == receive.count && send.type == receive.type;
}

template <class T>
T fold(T a, T b, int operation) {
  using Wide = std::conditional_t<std::is_integral_v<T>, std::uint64_t, T>;
  switch (operation) {
    case 1: return static_cast<T>(static_cast<Wide>(a) * static_cast<Wide>(b));
    case 2: return std::max(a, b);
    case 3: return std::min(a, b);
    default: return static_cast<T>(static_cast<Wide>(a) + static_cast<Wide>(b));
  }
}

/// Element i of every rank's input, folded; `at` is where the inputs begin.
template <class T>
void reduce_as(const std::vector<Call>& calls, std::size_t at, std::size_t count, std::byte* result) {
  auto* const to = reinterpret_cast<T*>(result);
  for (std::size_t i = 0; i < count; ++i) {
    T sum = static_cast<const T*>(calls.front().from)[at + i];
    for (std::size_t r = 1; r < calls.size(); ++r) {
      sum = fold(sum, static_cast<const T*>(calls[r].from)[at + i], calls.front().operation);
    }
    if (calls.front().operation == 4) {
      using Divisor = std::conditional_t<std::is_integral_v<T>,
                                         std::conditional_t<std::is_signed_v<T>, std::int64_t, std::uint64_t>, T>;
      sum = static_cast<T>(sum / static_cast<Divisor>(calls.size()));
    }
    to[i] = sum;
  }
}

/// By way of float.
template <class T, class ToFloat, class FromFloat>
void reduce_halves(const std::vector<Call>& calls, std::size_t at, std::size_t count, std::byte* result,
                   ToFloat to_float, FromFloat from_float) {
  auto* const to = reinterpret_cast<T*>(result);
  for (std::size_t i = 0; i < count; ++i) {
    float sum = to_float(static_cast<const T*>(calls.front().from)[at + i]);
    for (std::size_t r = 1; r < calls.size(); ++r) {
      sum = fold(sum, to_float(static_cast<const T*>(calls[r].from)[at + i]), calls.front().operation);
    }
    to[i] = from_float(calls.front().operation == 4 ? sum / static_cast<float>(calls.size()) : sum);
  }
}

std::vector<std::byte> reduced(const std::vector<Call>& calls, std::size_t at, std::size_t count) {
  const int type = calls.front().type;
  std::vector<std::byte> result(count * bytes_of(type));
  switch (type) {
    case 0: reduce_as<std::int8_t>(calls, at, count, result.data()); break;
    case 1: reduce_as<std::uint8_t>(calls, at, count, result.data()); break;
    case 2: reduce_as<std::int32_t>(calls, at, count, result.data()); break;
    case 3: reduce_as<std::uint32_t>(calls, at, count, result.data()); break;
    case 4: reduce_as<std::int64_t>(calls, at, count, result.data()); break;
    case 5: reduce_as<std::uint64_t>(calls, at, count, result.data()); break;
    case 7: reduce_as<float>(calls, at, count, result.data()); break;
    case 8: reduce_as<double>(calls, at, count, result.data()); break;
    case 6:
      reduce_halves<__half>(
          calls, at, count, result.data(), [](__half one) { return __half2float(one); },
          [](float one) { return __float2half(one); });
      break;
    case 9:
      reduce_halves<__nv_bfloat16>(
          calls, at, count, result.data(), [](__nv_bfloat16 one) { return __bfloat162float(one); },
          [](float one) { return __float2bfloat16(one); });
      break;
    default: break;
  }
  return result;
}

void write(void* to, const std::vector<std::byte>& bytes) {
  if (to != nullptr && !bytes.empty()) std::memcpy(to, bytes.data(), bytes.size());
}
std::vector<std::byte> read(const void* from, std::size_t bytes) {
  const auto* begin = static_cast<const std::byte*>(from);
  return bytes == 0 ? std::vector<std::byte>() : std::vector<std::byte>(begin, begin + bytes);
}

void run_collective(std::vector<Call> calls) {
  std::sort(calls.begin(), calls.end(), [](const Call& a, const Call& b) { return a.rank < b.rank; });
  const Call& any = calls.front();
  const std::size_t bytes = any.count * bytes_of(any.type);
  const auto root = static_cast<std::size_t>(std::max(any.peer, 0));
  std::vector<std::vector<std::byte>> results;
  switch (any.kind) {
    case Kind::all_reduce:
    case Kind::reduce: results.assign(calls.size(), reduced(calls, 0, any.count)); break;
    case Kind::broadcast: results.assign(calls.size(), read(calls[root].from, bytes)); break;
    case Kind::all_gather: {
      std::vector<std::byte> all;
      for (const Call& call : calls) {
        const auto part = read(call.from, bytes);
        all.insert(all.end(), part.begin(), part.end());
      }
      results.assign(calls.size(), all);
      break;
    }
    default:
      for (std::size_t r = 0; r < calls.size(); ++r) results.push_back(reduced(calls, r * any.count, any.count));
      break;
  }
  for (std::size_t r = 0; r < calls.size(); ++r) {
    if (any.kind == Kind::reduce && r != root) continue;
    write(calls[r].to, results[r]);
  }
}

}  // namespace

const char* why_incomplete(const std::vector<Call>& calls) {
  std::vector<Call> sends;
  std::vector<Call> receives;
  std::vector<Call> others;
  for (const Call& call : calls) {
    (call.kind == Kind::send ? sends : call.kind == Kind::receive ? receives : others).push_back(call);
  }
  for (const Call& send : sends) {
    const auto found =
        std::find_if(receives.begin(), receives.end(), [&](const Call& receive) { return match(send, receive); });
    if (found == receives.end()) return "a send has no receive in its group";
    receives.erase(found);
  }
  if (!receives.empty()) return "a receive has no send in its group";
  if (others.empty()) return nullptr;
  if (others.size() != static_cast<std::size_t>(others.front().size)) return "not every rank is in the group once";
  for (const Call& call : others) {
    const Call& first = others.front();
    if (call.kind != first.kind || call.count != first.count || call.type != first.type ||
        call.operation != first.operation || call.peer != first.peer) {
      return "ranks say different things";
    }
    if (std::count_if(others.begin(), others.end(), [&](const Call& other) { return other.rank == call.rank; }) != 1) {
      return "a rank is in the group twice";
    }
  }
  return nullptr;
}

void run(const std::vector<Call>& calls) {
  std::vector<Call> others;
  std::vector<Call> receives;
  for (const Call& call : calls) {
    if (call.kind == Kind::receive) receives.push_back(call);
    if (!is_pair(call)) others.push_back(call);
  }
  if (!others.empty()) run_collective(others);
  std::vector<std::vector<std::byte>> moved;
  for (const Call& receive : receives) {
    const auto send = std::find_if(calls.begin(), calls.end(), [&](const Call& one) { return match(one, receive); });
    moved.push_back(read(send->from, send->count * bytes_of(send->type)));
  }
  for (std::size_t i = 0; i < receives.size(); ++i) write(receives[i].to, moved[i]);
}

}  // namespace fake_nccl
