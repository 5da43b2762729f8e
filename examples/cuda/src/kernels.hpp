// What the Python module may ask of the GPU. Errors are thrown as std::runtime_error.
#pragma once

#include <cstddef>

// How many GPUs can be used; 0 without a driver.
int device_count();

// The version of the CUDA runtime library that was found, as 12080 for 12.8.
int runtime_version();

// result[i] = a * x[i] + y[i] on the current GPU; all three are host arrays of `count` values.
void saxpy(float a, const float *x, const float *y, float *result, std::size_t count);

// The sum of `count` values of a host array, added up on the current GPU.
double sum(const float *values, std::size_t count);
