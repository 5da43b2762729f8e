#include "binding.hpp"

#include <tuple>

namespace {

int size(const at::Tensor& tensor, int axis) { return static_cast<int>(tensor.size(axis)); }

std::tuple<at::Tensor, at::Tensor> quantize_rows(const at::Tensor& tensor) {
    sage::expect(tensor, at::kHalf, "tensor");
    const c10::cuda::CUDAGuard guard(tensor.device());
    at::Tensor values = at::empty(tensor.sizes(), tensor.options().dtype(at::kChar));
    at::Tensor scales = at::empty({tensor.size(0), sage::blocks(tensor.size(1))}, tensor.options().dtype(at::kFloat));
    sage::check(sage::quantize_rows(sage::halves(tensor), static_cast<std::int8_t*>(values.data_ptr()),
                                    static_cast<float*>(scales.data_ptr()), size(tensor, 0), size(tensor, 1),
                                    size(tensor, 2), c10::cuda::getCurrentCUDAStream()));
    return {values, scales};
}

std::tuple<at::Tensor, at::Tensor> quantize_columns(const at::Tensor& tensor) {
    sage::expect(tensor, at::kHalf, "tensor");
    const c10::cuda::CUDAGuard guard(tensor.device());
    at::Tensor values = at::empty(tensor.sizes(), tensor.options().dtype(at::kFloat8_e4m3fn));
    at::Tensor scales = at::empty({tensor.size(0), tensor.size(2)}, tensor.options().dtype(at::kFloat));
    sage::check(sage::quantize_columns(sage::halves(tensor), values.data_ptr(), static_cast<float*>(scales.data_ptr()),
                                       size(tensor, 0), size(tensor, 1), size(tensor, 2),
                                       c10::cuda::getCurrentCUDAStream()));
    return {values, scales};
}

std::tuple<at::Tensor, at::Tensor> subtract_mean(const at::Tensor& tensor) {
    sage::expect(tensor, at::kHalf, "tensor");
    const c10::cuda::CUDAGuard guard(tensor.device());
    at::Tensor centred = at::empty_like(tensor);
    at::Tensor mean = at::empty({tensor.size(0), tensor.size(2)}, tensor.options().dtype(at::kFloat));
    sage::check(sage::subtract_mean(sage::halves(tensor), sage::halves(centred), static_cast<float*>(mean.data_ptr()),
                                    size(tensor, 0), size(tensor, 1), size(tensor, 2),
                                    c10::cuda::getCurrentCUDAStream()));
    return {centred, mean};
}

}  // namespace

PYBIND11_MODULE(TORCH_EXTENSION_NAME, module) {
    module.def("quantize_rows", &quantize_rows);
    module.def("quantize_columns", &quantize_columns);
    module.def("subtract_mean", &subtract_mean);
}
