// A tool that listens to NVTX, linked into the tests as such tools may be: it needs no GPU.

#define NVTX_NO_IMPL
#include <gtest/gtest.h>
#include <nvtx3/nvToolsExt.h>

#include <string>
#include <vector>

#include "device/cuda/gpu_api.hpp"

namespace {

std::vector<std::string>& heard() {
  static std::vector<std::string> names;
  return names;
}

int NVTX_API hear_push(const char* name) {
  heard().emplace_back(name);
  return 0;
}

int NVTX_API hear_pop() {
  heard().emplace_back("end");
  return 0;
}

int NVTX_API listen(NvtxGetExportTableFunc_t table_of) {
  const auto* const table = static_cast<const NvtxExportTableCallbacks*>(table_of(NVTX_ETID_CALLBACKS));
  NvtxFunctionTable functions = nullptr;
  unsigned int size = 0;
  if (table == nullptr || table->GetModuleFunctionTable(NVTX_CB_MODULE_CORE, &functions, &size) == 0)
    return 0;
  *functions[NVTX_CBID_CORE_RangePushA] = reinterpret_cast<NvtxFunctionPointer>(&hear_push);
  *functions[NVTX_CBID_CORE_RangePop] = reinterpret_cast<NvtxFunctionPointer>(&hear_pop);
  return 1;
}

}  // namespace

extern "C" {
NvtxInitializeInjectionNvtxFunc_t InitializeInjectionNvtx2_fnptr = &listen;  // NOLINT: the name is NVTX's
}

namespace ppsim {

using namespace gpu_backend;
namespace {

TEST(ProfilerMarks, ReachAToolThatListens) {
  const MarkTable marks = profiler_marks();
  heard().clear();
  marks.push("PP:0F3");
  marks.pop();
  EXPECT_EQ(heard(), (std::vector<std::string>{"PP:0F3", "end"}));
}

}  // namespace
}  // namespace ppsim
