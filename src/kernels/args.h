// The plain-data arguments of every kernel. With packed_layout.h and peak_loops.h the only header
// from outside that kernels/<isa>/ includes: no std templates, so that nothing compiled for a wide
// ISA can be picked by the linker for baseline code.
#pragma once

#include <stddef.h>
#include <stdint.h>

namespace pacer::kernels {

constexpr uint32_t kQuantBlock = 32;   // values that share a scale, in weights and in activations
constexpr uint32_t kSuperBlock = 256;  // values of a block of the K-quants and IQ4_XS
constexpr uint32_t kRowGroup = 16;     // weight rows that a packed layout interleaves
constexpr uint32_t kKvBlockTokens = 16;

// Weight formats that kernels multiply with; a subset of tensor::DType (kernel_table.h maps them).
enum class WeightFormat : uint8_t {
  kF32,
  kF16,
  kBF16,
  kQ4_0,
  kQ4_1,
  kQ5_0,
  kQ5_1,
  kQ8_0,
  kQ2K,
  kQ3K,
  kQ4K,
  kQ5K,
  kQ6K,
  kIQ4NL,
  kIQ4XS,
};
constexpr uint32_t kWeightFormatCount = 15;

// What a tier's gemm wants its activations as, for a given weight format.
enum class ActivationKind : uint8_t { kF32, kQ8 };

// Activations of `rows` tokens, `columns` values each. One of the two forms is set.
struct Activations {
  uint32_t rows;
  uint32_t columns;      // a multiple of kQuantBlock for q8
  const float* f32;      // [rows][columns]
  const int8_t* values;  // [rows][columns], in [-127, 127]
  const float* scales;   // [rows][columns / 32]: x is about scale * value; scale = max|x| / 127
  const float* sums;  // [rows][columns / 32]: scale * (sum of the block's values), for formats with
                      // an offset
  const float* half_sums;  // [rows][columns / 16]: the same of each half of a block, for formats
                           // with an offset for every 16 columns
};

// Where quantize_q8 puts one row of activations.
struct Q8Row {
  int8_t* values;    // [columns]
  float* scales;     // [columns / 32]
  float* sums;       // [columns / 32]
  float* half_sums;  // [columns / 16]
};

// Repacks rows [row_begin, row_end) of a matrix from GGUF blocks into the tier's layout. row_begin
// is a multiple of kRowGroup, and row_end is one or equals rows. Rows of the last group that do not
// exist are packed as zeros.
struct PackArgs {
  WeightFormat format;
  const void*
      source;  // all GGUF rows of the matrix from row 0, back to back, no alignment promised
  uint32_t rows;
  uint32_t columns;
  uint32_t row_begin;
  uint32_t row_end;
  void* packed;  // start of the whole packed matrix, 64-byte aligned
};

// out[m][n] = dot(x row m, weight row n) for every row m of x and n in [row_begin, row_end).
// The result for (m, n) depends on x row m and weight row n alone: not on the other rows, nor on
// how rows are tiled.
struct GemmArgs {
  WeightFormat format;
  const void* packed;
  uint32_t rows;  // of the whole weight matrix
  Activations x;
  float* out;
  size_t out_stride;        // floats between rows of out
  uint32_t row_begin;       // weight rows; a multiple of kRowGroup
  uint32_t row_end;         // a multiple of kRowGroup, or rows
  bool accumulate = false;  // add to what out holds, instead of replacing it
};

// Rotary embedding of `heads` heads at one position. Source: Su et al., "RoFormer", 2021.
enum class RopePairing : uint8_t {
  kAdjacent,  // (x[2i], x[2i+1]): llama as stored in GGUF
  kHalves,    // (x[i], x[i + dims/2]): NeoX style
};
struct RopeArgs {
  float* x;  // [heads][head_dim]
  uint32_t heads;
  uint32_t head_dim;
  uint32_t dims;  // the first `dims` values of each head are rotated; even
  RopePairing pairing;
  const float* cos;  // [dims / 2] at this position
  const float* sin;
};

// One KV block of one layer holds kKvBlockTokens tokens of every kv head, f16:
//   [kv_head][ K: head_dim x 16 tokens (transposed) | V: 16 tokens x head_dim ]
// so a (block, kv head) is 2 * 16 * head_dim contiguous values, and scores of 16 tokens need no
// horizontal sums.
struct StoreKvArgs {
  const float* k;  // [kv_heads][head_dim], rotated
  const float* v;  // [kv_heads][head_dim]
  uint32_t kv_heads;
  uint32_t head_dim;
  uint16_t* block;  // this layer's part of the token's block
  uint32_t slot;    // token within the block, < kKvBlockTokens
};

// Causal attention of a run of query tokens of one sequence, for the query heads of one kv head.
// Query token t (0-based) stands at position p = first_position + t and attends to positions
// 0 .. p, or with a window to the last `window` of them, itself included. KV blocks that are wholly
// outside the window of every query token are not read. Online softmax over the paged KV (Milakov,
// Gimelshein 2018; Kwon et al., "PagedAttention", 2023).
struct AttendArgs {
  const float* q;   // token t, head h of the group: q + t * q_stride + h * head_dim
  size_t q_stride;  // floats
  float* out;       // the same shape with out_stride
  size_t out_stride;
  uint32_t tokens;
  uint32_t group;     // query heads that share this kv head
  uint32_t head_dim;  // a multiple of 8, at most 256
  uint32_t first_position;
  float scale;                  // usually 1 / sqrt(head_dim)
  uint32_t window;              // 0: no limit
  float soft_cap;               // above 0: score = cap * tanh(score / cap); 0: none
  const uint16_t* kv;           // this layer and kv head within block 0
  size_t block_stride;          // f16 values from one block id to the next
  const uint32_t* block_table;  // [ceil((first_position + tokens) / 16)]
  float*
      scratch;  // at least attend_scratch_floats(args) floats, 64-byte aligned, this worker's own
};

}  // namespace pacer::kernels
