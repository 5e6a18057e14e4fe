/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The driver libraries of NVIDIA and AMD have the same calls under different names. Handles are opaque pointers, results are ints and 0 is
 * success in both. A member is NULL where the vendor has no such call.
 */
#ifndef ZIPG_DRIVER_H
#define ZIPG_DRIVER_H

#include <stddef.h>
#include <stdint.h>

#include "kernels/zipg_job.h"
#include "zipc_codec.h"

/* X(member, CUDA's symbol, HIP's symbol, parameters) */
#define ZIPG_DRIVER_CALLS(X)                                                                                             \
	X(init, "cuInit", "hipInit", (unsigned int flags))                                                               \
	X(version, "cuDriverGetVersion", "hipDriverGetVersion", (int *version))                                          \
	X(count, "cuDeviceGetCount", "hipGetDeviceCount", (int *count))                                                  \
	X(device, "cuDeviceGet", "hipDeviceGet", (int *device, int ordinal))                                             \
	X(device_name, "cuDeviceGetName", "hipDeviceGetName", (char *name, int len, int device))                         \
	X(attribute, "cuDeviceGetAttribute", "hipDeviceGetAttribute", (int *value, int attribute, int device))           \
	X(retain, "cuDevicePrimaryCtxRetain", "hipDevicePrimaryCtxRetain", (void **ctx, int device))                     \
	X(release, "cuDevicePrimaryCtxRelease_v2", "hipDevicePrimaryCtxRelease", (int device))                           \
	X(push, "cuCtxPushCurrent_v2", "hipCtxPushCurrent", (void *ctx))                                                 \
	X(pop, "cuCtxPopCurrent_v2", "hipCtxPopCurrent", (void **ctx))                                                   \
	X(load, "cuModuleLoadData", "hipModuleLoadData", (void **module, const void *image))                             \
	X(unload, "cuModuleUnload", "hipModuleUnload", (void *module))                                                   \
	X(function, "cuModuleGetFunction", "hipModuleGetFunction", (void **function, void *module, const char *name))    \
	X(function_attribute, "cuFuncSetAttribute", "", (void *function, int attribute, int value))                      \
	X(occupancy, "cuOccupancyMaxActiveBlocksPerMultiprocessor", "hipModuleOccupancyMaxActiveBlocksPerMultiprocessor", \
	  (int *blocks, void *function, int threads, size_t shared))                                                     \
	X(launch, "cuLaunchKernel", "hipModuleLaunchKernel",                                                             \
	  (void *function, unsigned int gx, unsigned int gy, unsigned int gz, unsigned int bx, unsigned int by,          \
	   unsigned int bz, unsigned int shared, void *stream, void **params, void **extra))                             \
	X(stream_open, "cuStreamCreate", "hipStreamCreateWithFlags", (void **stream, unsigned int flags))                \
	X(stream_close, "cuStreamDestroy_v2", "hipStreamDestroy", (void *stream))                                        \
	X(stream_query, "cuStreamQuery", "hipStreamQuery", (void *stream))                                               \
	X(stream_wait, "cuStreamSynchronize", "hipStreamSynchronize", (void *stream))                                    \
	X(stream_write, "cuStreamWriteValue32_v2", "hipStreamWriteValue32",                                              \
	  (void *stream, uint64_t address, uint32_t value, unsigned int flags))                                          \
	X(alloc, "cuMemAlloc_v2", "hipMalloc", (uint64_t *address, size_t bytes))                                        \
	X(free, "cuMemFree_v2", "hipFree", (uint64_t address))                                                           \
	X(alloc_host, "cuMemHostAlloc", "hipHostMalloc", (void **ptr, size_t bytes, unsigned int flags))                 \
	X(free_host, "cuMemFreeHost", "hipHostFree", (void *ptr))                                                        \
	X(host_address, "cuMemHostGetDevicePointer_v2", "hipHostGetDevicePointer",                                       \
	  (uint64_t *address, void *ptr, unsigned int flags))                                                            \
	X(upload, "cuMemcpyHtoD_v2", "hipMemcpyHtoD", (uint64_t dst, const void *src, size_t bytes))                     \
	X(download, "cuMemcpyDtoH_v2", "hipMemcpyDtoH", (void *dst, uint64_t src, size_t bytes))                         \
	X(copy_async, "cuMemcpyDtoDAsync_v2", "hipMemcpyDtoDAsync", (uint64_t dst, uint64_t src, size_t bytes, void *stream)) \
	X(copy_any, "cuMemcpyAsync", "hipMemcpyDtoDAsync", (uint64_t dst, uint64_t src, size_t bytes, void *stream))     \
	X(fill, "cuMemsetD8_v2", "hipMemsetD8", (uint64_t dst, unsigned char value, size_t bytes))                       \
	X(pointer, "cuPointerGetAttribute", "hipPointerGetAttribute", (void *value, int attribute, uint64_t ptr))        \
	X(event_open, "cuEventCreate", "hipEventCreateWithFlags", (void **event, unsigned int flags))                    \
	X(event_close, "cuEventDestroy_v2", "hipEventDestroy", (void *event))                                            \
	X(event_record, "cuEventRecord", "hipEventRecord", (void *event, void *stream))                                  \
	X(event_elapsed, "cuEventElapsedTime", "hipEventElapsedTime", (float *ms, void *start, void *end))               \
	X(capture_begin, "cuStreamBeginCapture_v2", "hipStreamBeginCapture", (void *stream, int mode))                   \
	X(capture_end, "cuStreamEndCapture", "hipStreamEndCapture", (void *stream, void **graph))                        \
	X(graph_open, "cuGraphInstantiateWithFlags", "hipGraphInstantiateWithFlags",                                     \
	  (void **exec, void *graph, unsigned long long flags))                                                          \
	X(graph_launch, "cuGraphLaunch", "hipGraphLaunch", (void *exec, void *stream))                                   \
	X(graph_exec_close, "cuGraphExecDestroy", "hipGraphExecDestroy", (void *exec))                                   \
	X(graph_close, "cuGraphDestroy", "hipGraphDestroy", (void *graph))

struct zipg_driver {
#define ZIPG_DRIVER_MEMBER(member, cuda, hip, parameters) int (*member) parameters;
	ZIPG_DRIVER_CALLS(ZIPG_DRIVER_MEMBER)
#undef ZIPG_DRIVER_MEMBER
};

struct zipg_hw;

/* A launch. */
struct zipg_again {
	enum zipg_kernel_kind kind;
	enum zipc_dtype dtype;
	uint32_t grid;
	struct zipg_job job;
};

/* For benches: the driver that a device of the cuda or hip backend uses, and its context made current and not. */
const struct zipg_driver *zipg_hw_driver(struct zipg_hw *hw);
void zipg_hw_enter(struct zipg_hw *hw);
void zipg_hw_leave(struct zipg_hw *hw);

/*
 * Also for benches: record these events right before the first and right after the last launch from now on; NULL ends it. What the last
 * launch was is kept, so that it can be made again inside a graph.
 */
void zipg_hw_time(struct zipg_hw *hw, void *start, void *stop);
int zipg_hw_again(struct zipg_hw *hw, unsigned int stream, const struct zipg_again *again);
void zipg_hw_last(struct zipg_hw *hw, struct zipg_again *again);

#endif
