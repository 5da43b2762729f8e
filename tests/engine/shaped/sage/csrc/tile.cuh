// Attention of one warp's query over the keys, a tile at a time: no more than a tile's scores exist at once.
#pragma once

#include "kernels.hpp"

#include <cuda_fp8.h>

namespace sage {

constexpr int kTile = 32;   // keys of a tile, one for each lane
constexpr int kWarps = 8;   // of a thread block, each with a query of its own
constexpr int kThreads = kWarps * 32;
constexpr unsigned kAll = 0xffffffffu;
constexpr float kNever = -1e30f;  // a score that counts for nothing, and makes no NaN

__device__ inline float as_float(__half value) { return __half2float(value); }
__device__ inline float as_float(__nv_fp8_e4m3 value) { return static_cast<float>(value); }

// The sum so far of a softmax-weighted sum of rows, kept by a warp: lane l has columns l, l + 32, ….
template <int Dim>
struct Row {
    float out[Dim / 32] = {};
    float highest = kNever;
    float weight = 0;

    // score: of this lane's key. values: the tile, kTile rows; rows without a key are zero.
    template <class Value>
    __device__ void add(float score, const Value* values) {
        float top = score;
        for (int step = 16; step; step /= 2) top = fmaxf(top, __shfl_xor_sync(kAll, top, step));
        const float now = fmaxf(highest, top);
        const float shrink = __expf(highest - now);
        const float mine = score > kNever ? __expf(score - now) : 0.0f;
        highest = now;
        float sum = mine;
        for (int step = 16; step; step /= 2) sum += __shfl_xor_sync(kAll, sum, step);
        weight = weight * shrink + sum;
        for (float& column : out) column *= shrink;
        const int lane = threadIdx.x % 32;
        for (int key = 0; key < kTile; ++key) {
            const float share = __shfl_sync(kAll, mine, key);
#pragma unroll
            for (int i = 0; i < Dim / 32; ++i) out[i] += share * as_float(values[key * Dim + i * 32 + lane]);
        }
    }
};

// What differs between kernels is how the tiles of keys arrive.
template <int Dim, class Value, class Keys>
__device__ void attend(const Problem& problem, const Quantized& query, const float* key_scales, const Value* value,
                       const float* value_scales, __half* out, Keys& keys) {
    __shared__ Value values[kTile * Dim];
    __shared__ int queries[kWarps][Dim / 4];
    const int head = blockIdx.y, warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const int first = blockIdx.x * kWarps, mine = first + warp;
    const bool real = mine < problem.queries;

    const auto* rows = reinterpret_cast<const int*>(query.values) + std::size_t(head) * problem.queries * (Dim / 4);
    for (int i = lane; i < Dim / 4; i += 32) queries[warp][i] = real ? rows[std::size_t(mine) * (Dim / 4) + i] : 0;
    const int query_blocks = (problem.queries + kBlock - 1) / kBlock, key_blocks = (problem.keys + kBlock - 1) / kBlock;
    const float own = real ? query.scales[head * query_blocks + mine / kBlock] * problem.scale : 0;
    value += std::size_t(head) * problem.keys * Dim;

    // The last query of the block decides how many keys any of them sees.
    const int seen = problem.causal ? min(problem.keys, first + kWarps) : problem.keys;
    Row<Dim> row;
    for (int start = 0; start < seen; start += kTile) {
        __syncthreads();
        const int* tile = keys.fetch(head, start);
        for (int i = threadIdx.x; i < kTile * Dim; i += kThreads) {
            values[i] = start + i / Dim < problem.keys ? value[std::size_t(start) * Dim + i] : Value{};
        }
        __syncthreads();
        const int key = start + lane;
        int dot = 0;
#pragma unroll
        for (int i = 0; i < Dim / 4; ++i) dot = __dp4a(queries[warp][i], tile[lane * Keys::kStride + i], dot);
        const bool counts = key < problem.keys && (!problem.causal || key <= mine);
        const float scale = counts ? own * key_scales[head * key_blocks + key / kBlock] : 0;
        row.add(counts ? dot * scale : kNever, values);
    }
    if (!real) return;
    for (int i = 0; i < Dim / 32; ++i) {
        const int column = i * 32 + lane;
        const float scale = value_scales ? value_scales[head * Dim + column] : 1.0f;
        const float share = row.weight > 0 ? row.out[i] * scale / row.weight : 0;
        out[(std::size_t(head) * problem.queries + mine) * Dim + column] = __float2half(share);
    }
}

// Keys that the threads fetch themselves; rows are padded, so that the lanes read from different banks.
template <int Dim>
struct CopiedKeys {
    static constexpr int kStride = Dim / 4 + 1;
    const int* keys;
    int count;
    int (&tile)[kTile * kStride];

    __device__ const int* fetch(int head, int start) {
        const int* rows = keys + (std::size_t(head) * count + start) * (Dim / 4);
        for (int i = threadIdx.x; i < kTile * (Dim / 4); i += kThreads) {
            const int row = i / (Dim / 4), column = i % (Dim / 4);
            tile[row * kStride + column] = start + row < count ? rows[i] : 0;
        }
        return tile;
    }
};

template <int Dim, class Value>
__global__ void __launch_bounds__(kThreads)
    copied(Problem problem, Quantized query, Quantized key, const Value* value, const float* value_scales, __half* out) {
    __shared__ int tile[kTile * CopiedKeys<Dim>::kStride];
    CopiedKeys<Dim> keys{reinterpret_cast<const int*>(key.values), problem.keys, tile};
    attend<Dim>(problem, query, key.scales, value, value_scales, out, keys);
}

inline dim3 grid(const Problem& problem) { return dim3((problem.queries + kWarps - 1) / kWarps, problem.heads); }

template <class Value>
cudaError_t launch_copied(const Problem& problem, Quantized query, Quantized key, const Value* value,
                          const float* value_scales, __half* out, cudaStream_t stream) {
    if (problem.dim == 64) {
        copied<64><<<grid(problem), kThreads, 0, stream>>>(problem, query, key, value, value_scales, out);
    } else if (problem.dim == 128) {
        copied<128><<<grid(problem), kThreads, 0, stream>>>(problem, query, key, value, value_scales, out);
    } else {
        return cudaErrorInvalidValue;
    }
    return cudaGetLastError();
}

}  // namespace sage
