// 8-bit scores, values in e4m3, which GPUs from 8.9 on convert in hardware.
#include "tile.cuh"

namespace sage {

cudaError_t attention_sm89(const Problem& problem, Quantized query, Quantized key, const void* value,
                           const float* value_scales, __half* out, cudaStream_t stream) {
    const auto* values = static_cast<const __nv_fp8_e4m3*>(value);
    return launch_copied(problem, query, key, values, value_scales, out, stream);
}

}  // namespace sage
