#include "binding.hpp"

namespace {

at::Tensor attend(const at::Tensor& query, const at::Tensor& query_scale, const at::Tensor& key,
                  const at::Tensor& key_scale, const at::Tensor& value, double scale, bool causal) {
    const sage::Quantized queries = sage::quantized(query, query_scale, "query");
    const sage::Quantized keys = sage::quantized(key, key_scale, "key");
    sage::expect(value, at::kHalf, "value");
    const c10::cuda::CUDAGuard guard(query.device());
    at::Tensor out = at::empty(query.sizes(), value.options());
    sage::check(sage::attention_sm80(sage::problem(query, key, value, scale, causal), queries, keys,
                                     sage::halves(value), sage::halves(out), c10::cuda::getCurrentCUDAStream()));
    return out;
}

}  // namespace

PYBIND11_MODULE(TORCH_EXTENSION_NAME, module) { module.def("attend", &attend); }
