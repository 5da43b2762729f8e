// As sm89, with tiles of keys that the copy engine fetches. Their description is made by the driver (libcuda).
#include "tile.cuh"

#include <cuda.h>

#if defined(__CUDA_ARCH__) && !defined(__CUDA_ARCH_FEAT_SM90_ALL)
#error "compile this file for sm_90a"
#endif

namespace sage {
namespace {

template <int Dim>
struct FetchedKeys {
    static constexpr int kStride = Dim / 4;
    const CUtensorMap* map;
    int count;
    int* tile;  // 128-byte aligned, in shared memory
    std::uint32_t barrier;  // its address in shared memory
    std::uint32_t phase = 0;

    __device__ const int* fetch(int head, int start) {
        const auto target = static_cast<std::uint32_t>(__cvta_generic_to_shared(tile));
        if (threadIdx.x == 0) {
            // What was read from the tile before must not be overtaken by what is written into it now.
            asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
            // Rows behind the tensor's end arrive as zeros, and count among the bytes.
            asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(kTile * Dim)
                         : "memory");
            asm volatile(
                "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
                "[%0], [%1, {%2, %3}], [%4];" ::"r"(target),
                "l"(map), "r"(0), "r"(head * count + start), "r"(barrier)
                : "memory");
        }
        std::uint32_t done = 0;
        while (!done) {
            asm volatile(
                "{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
                : "=r"(done)
                : "r"(barrier), "r"(phase)
                : "memory");
        }
        phase ^= 1;
        return tile;
    }
};

template <int Dim>
__global__ void __launch_bounds__(kThreads)
    fetched(Problem problem, Quantized query, const __grid_constant__ CUtensorMap map, const float* key_scales,
            const __nv_fp8_e4m3* value, const float* value_scales, __half* out) {
    __shared__ alignas(128) int tile[kTile * Dim / 4];
    __shared__ alignas(8) std::uint64_t barrier;
    const auto address = static_cast<std::uint32_t>(__cvta_generic_to_shared(&barrier));
    if (threadIdx.x == 0) {
        asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(address) : "memory");
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
    __syncthreads();
    FetchedKeys<Dim> keys{&map, problem.keys, tile, address};
    attend<Dim>(problem, query, key_scales, value, value_scales, out, keys);
}

bool describe(CUtensorMap& map, const Problem& problem, const std::int8_t* keys) {
    const cuuint64_t sizes[] = {cuuint64_t(problem.dim), cuuint64_t(problem.heads) * problem.keys};
    const cuuint64_t row_bytes[] = {cuuint64_t(problem.dim)};
    const cuuint32_t box[] = {cuuint32_t(problem.dim), kTile};
    const cuuint32_t steps[] = {1, 1};
    return cuTensorMapEncodeTiled(&map, CU_TENSOR_MAP_DATA_TYPE_UINT8, 2, const_cast<std::int8_t*>(keys), sizes,
                                  row_bytes, box, steps, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_NONE,
                                  CU_TENSOR_MAP_L2_PROMOTION_NONE, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE) == CUDA_SUCCESS;
}

}  // namespace

cudaError_t attention_sm90(const Problem& problem, Quantized query, Quantized key, const void* value,
                           const float* value_scales, __half* out, cudaStream_t stream) {
    CUtensorMap map;
    if ((problem.dim != 64 && problem.dim != 128) || !describe(map, problem, key.values)) return cudaErrorInvalidValue;
    const auto* values = static_cast<const __nv_fp8_e4m3*>(value);
    if (problem.dim == 64) {
        fetched<64><<<grid(problem), kThreads, 0, stream>>>(problem, query, map, key.scales, values, value_scales, out);
    } else {
        fetched<128><<<grid(problem), kThreads, 0, stream>>>(problem, query, map, key.scales, values, value_scales, out);
    }
    return cudaGetLastError();
}

}  // namespace sage
