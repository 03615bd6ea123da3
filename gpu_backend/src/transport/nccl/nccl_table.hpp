#pragma once

#include <climits>
#include <cstddef>
#include <functional>
#include <string>
#include <string_view>

struct ncclComm;
struct CUstream_st;

namespace ppsim::gpu_backend {

struct NcclUniqueId {
  char internal[128] = {};
};

/// ncclConfig_t as of NCCL 2.28; a library of another version reads as much of it as `size` and `version`
/// say.
struct NcclConfig {
  std::size_t size = 0;
  unsigned int magic = 0xcafebeef;
  unsigned int version = 22809;
  int blocking = INT_MIN;
  int cga_cluster_size = INT_MIN;
  int min_ctas = INT_MIN;
  int max_ctas = INT_MIN;
  const char* net_name = nullptr;
  int split_share = INT_MIN;
  int traffic_class = INT_MIN;
  const char* name = nullptr;
  int collnet_enable = INT_MIN;
  int cta_policy = INT_MIN;
  int shrink_share = INT_MIN;
  int nvls_ctas = INT_MIN;
  int channels_per_net_peer = INT_MIN;
  int nvlink_centric = INT_MIN;

  NcclConfig() : size(sizeof(NcclConfig)) {}
};

/// Values of nccl.h, compared with it by gpu_backend/checks/table_check.cpp.
inline constexpr int kNcclSuccess = 0;
inline constexpr int kNcclInvalidUsage = 5;
inline constexpr int kNcclInProgress = 7;
inline constexpr int kNcclNoColor = -1;
inline constexpr int kNcclSum = 0;
inline constexpr int kNcclUint8 = 1;
inline constexpr int kNcclUint64 = 5;
inline constexpr int kNcclFloat32 = 7;
inline constexpr int kNcclFloat64 = 8;
inline constexpr int kNcclBfloat16 = 9;

/// NCCL as a table of calls: the library's own, or a test's.
struct NcclTable {
#define PPSIM_CALL(name, symbol, result, parameters) std::function<result parameters> name;
#include "nccl_table.def"
#undef PPSIM_CALL
};

/// Fills a table from NCCL. `path` empty: $PPSIM_NCCL_LIBRARY, else libnccl.so.2.
/// Errors: throws BackendError naming the library or the symbol that is missing.
[[nodiscard]] NcclTable load_nccl(const std::string& path = "");

/// Errors: throws BackendError with `what` and the text of a result that is neither success nor in progress.
void check_nccl(const NcclTable& nccl, int result, std::string_view what);
/// Its version as ncclGetVersion says it, and that as a text.
[[nodiscard]] int nccl_version(const NcclTable& nccl);
[[nodiscard]] std::string nccl_text(int version);

}  // namespace ppsim::gpu_backend
