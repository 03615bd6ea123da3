// A CUDA driver without devices that takes compiled kernels and says where they are: cuDNN finishes a plan
// for a device that is only described when the kernels that it has compiled could be loaded. Everything that
// would run something is missing.

#include <cstddef>

namespace {

constexpr int kSuccess = 0;
constexpr int kStub = 34;  // CUDA_ERROR_STUB_LIBRARY: what the toolkit's own stub of the driver says
int some_object = 0;       // something to point at

}  // namespace

extern "C" {

int cuInit(unsigned int) { return kStub; }
int cuGetErrorString(int, const char** text) {
  *text = "no device";
  return kSuccess;
}
int cuGetErrorName(int, const char** name) {
  *name = "CUDA_ERROR_STUB_LIBRARY";
  return kSuccess;
}
int cuDriverGetVersion(int* version) {
  *version = 13000;
  return kSuccess;
}
int cuDeviceGetCount(int* count) {
  *count = 0;
  return kStub;
}
// NOLINTNEXTLINE(readability-function-size): the signature is the driver's.
int cuLibraryLoadData(void** library, const void*, int*, void**, unsigned int, int*, void**, unsigned int) {
  *library = &some_object;
  return kSuccess;
}
int cuLibraryUnload(void*) { return kSuccess; }
int cuLibraryGetKernel(void** kernel, void*, const char*) {
  *kernel = &some_object;
  return kSuccess;
}
int cuKernelGetFunction(void** function, void*) {
  *function = &some_object;
  return kSuccess;
}
int cuKernelSetAttribute(int, int, void*, int) { return kSuccess; }
int cuKernelGetAttribute(int* value, int, void*, int) {
  *value = 0;
  return kSuccess;
}
int cuFuncSetAttribute(void*, int, int) { return kSuccess; }

// Symbols that cuDNN looks up and does not need.
#define PPSIM_REFUSED(name) \
  int name() { return kStub; }
PPSIM_REFUSED(cuCtxGetCurrent)
PPSIM_REFUSED(cuCtxGetLimit)
PPSIM_REFUSED(cuCtxPopCurrent)
PPSIM_REFUSED(cuCtxPushCurrent)
PPSIM_REFUSED(cuDeviceGet)
PPSIM_REFUSED(cuGetProcAddress)
PPSIM_REFUSED(cuGetProcAddress_v2)
PPSIM_REFUSED(cuLaunchCooperativeKernel)
PPSIM_REFUSED(cuLaunchKernel)
PPSIM_REFUSED(cuLaunchKernelEx)
PPSIM_REFUSED(cuLibraryLoadFromFile)
PPSIM_REFUSED(cuLinkAddData)
PPSIM_REFUSED(cuLinkComplete)
PPSIM_REFUSED(cuLinkCreate)
PPSIM_REFUSED(cuLinkDestroy)
PPSIM_REFUSED(cuOccupancyMaxPotentialClusterSize)
PPSIM_REFUSED(cuStreamGetCtx)

}  // extern "C"
