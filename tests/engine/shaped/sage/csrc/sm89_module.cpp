#include "binding.hpp"

PYBIND11_MODULE(TORCH_EXTENSION_NAME, module) { module.def("attend", &sage::attend_fp8<sage::attention_sm89>); }
