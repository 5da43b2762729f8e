cibuildwheel --output-dir wheelhouse/cu130
export CIBW_MANYLINUX_X86_64_IMAGE=quay.io/manylinux_cuda/manylinux_2_28_x86_64_cuda12_9
export CIBW_TEST_REQUIRES='cuda-toolkit[cudart]==12.9.*'
export CIBW_REPAIR_WHEEL_COMMAND_LINUX='auditwheel repair --exclude libcudart.so.12 -w {dest_dir} {wheel}'
cibuildwheel --output-dir wheelhouse/cu129
