// One kernel and its launch: what the fixtures of this folder hold.
__global__ void scale(float *values, float factor, int count) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) values[i] *= factor;
}
extern "C" void launch(float *values, float factor, int count) {
  scale<<<(count + 255) / 256, 256>>>(values, factor, count);
}
