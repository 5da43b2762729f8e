// 8-bit scores, values in half precision: for every GPU.
#include "tile.cuh"

namespace sage {

cudaError_t attention_sm80(const Problem& problem, Quantized query, Quantized key, const __half* value, __half* out,
                           cudaStream_t stream) {
    return launch_copied(problem, query, key, value, nullptr, out, stream);
}

}  // namespace sage
