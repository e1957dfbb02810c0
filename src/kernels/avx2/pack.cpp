// GGUF rows to the packed layout of layout.h, and one row back. At load time; unpack_row also for
// embedding look-ups.

#include <immintrin.h>

#include "kernels/avx2/kernels.h"
#include "kernels/avx2/layout.h"

namespace pacer::kernels::avx2 {

namespace {

// Bytes of 32 values of one row in a GGUF file: scale (and minimum) as f16, then the values.
size_t gguf_block_bytes(WeightFormat format) {
  if (format == WeightFormat::kQ8_0) return 2 + 32;
  return format == WeightFormat::kQ4_1 ? 4 + 16 : 2 + 16;
}

size_t gguf_row_bytes(WeightFormat format, uint32_t columns) {
  if (is_quantised(format)) return columns / kQuantBlock * gguf_block_bytes(format);
  return columns * value_bytes(format);
}

void copy(void* to, const void* from, size_t bytes) {
  __builtin_memcpy(to, from, bytes);
}

// GGUF keeps column i in the low nibble of byte i and column i + 16 in the high one.
uint8_t gguf_nibble(const uint8_t* nibbles, uint32_t column) {
  return column < 16 ? nibbles[column] & 15 : nibbles[column - 16] >> 4;
}

void pack_q4_block(const uint8_t* gguf, WeightFormat format, uint32_t lane, uint8_t* block) {
  const bool has_min = format == WeightFormat::kQ4_1;
  const uint8_t* nibbles = gguf + (has_min ? 4 : 2);
  for (uint32_t line = 0; line < kQ4Lines; ++line) {
    for (uint32_t i = 0; i < 4; ++i) {
      const uint8_t low = gguf_nibble(nibbles, 8 * line + i);
      const uint8_t high = gguf_nibble(nibbles, 8 * line + 4 + i);
      block[line * kLineBytes + 4 * lane + i] = (uint8_t)(low | high << 4);
    }
  }
  copy(block + kQ4ScaleOffset + 2 * lane, gguf, 2);
  if (has_min) copy(block + kQ4MinOffset + 2 * lane, gguf + 2, 2);
}

void pack_q8_block(const uint8_t* gguf, uint32_t lane, uint8_t* block) {
  for (uint32_t line = 0; line < kQ8Lines; ++line) {
    copy(block + line * kLineBytes + 4 * lane, gguf + 2 + 4 * line, 4);
  }
  copy(block + kQ8ScaleOffset + 2 * lane, gguf, 2);
}

void pack_row(const PackArgs& args, const uint8_t* gguf, uint32_t lane, uint8_t* group) {
  if (!is_quantised(args.format)) {
    const size_t bytes = value_bytes(args.format);
    for (uint32_t k = 0; k < args.columns; ++k) {
      copy(group + (k * kRowGroup + lane) * bytes, gguf + k * bytes, bytes);
    }
    return;
  }
  for (uint32_t b = 0; b < args.columns / kQuantBlock; ++b) {
    const uint8_t* from = gguf + b * gguf_block_bytes(args.format);
    uint8_t* to = group + b * block_bytes(args.format);
    if (args.format == WeightFormat::kQ8_0) {
      pack_q8_block(from, lane, to);
    } else {
      pack_q4_block(from, args.format, lane, to);
    }
  }
}

float half_at(const uint8_t* at) {
  uint16_t bits;
  copy(&bits, at, 2);
  return _cvtsh_ss(bits);
}

void unpack_q4_block(const uint8_t* block, WeightFormat format, uint32_t lane, float* out) {
  const float scale = half_at(block + kQ4ScaleOffset + 2 * lane);
  const bool has_min = format == WeightFormat::kQ4_1;
  const float min = has_min ? half_at(block + kQ4MinOffset + 2 * lane) : 0.0f;
  for (uint32_t line = 0; line < kQ4Lines; ++line) {
    for (uint32_t i = 0; i < 4; ++i) {
      const int32_t byte = block[line * kLineBytes + 4 * lane + i];
      const int32_t low = byte & 15;
      const int32_t high = byte >> 4;
      out[8 * line + i] = has_min ? (float)low * scale + min : (float)(low - 8) * scale;
      out[8 * line + 4 + i] = has_min ? (float)high * scale + min : (float)(high - 8) * scale;
    }
  }
}

void unpack_q8_block(const uint8_t* block, uint32_t lane, float* out) {
  const float scale = half_at(block + kQ8ScaleOffset + 2 * lane);
  for (uint32_t line = 0; line < kQ8Lines; ++line) {
    for (uint32_t i = 0; i < 4; ++i) {
      out[4 * line + i] = (float)(int8_t)block[line * kLineBytes + 4 * lane + i] * scale;
    }
  }
}

float unpack_value(WeightFormat format, const uint8_t* at) {
  if (format == WeightFormat::kF16) return half_at(at);
  float value;
  if (format == WeightFormat::kF32) {
    copy(&value, at, 4);
    return value;
  }
  uint16_t bits;
  copy(&bits, at, 2);
  const uint32_t wide = (uint32_t)bits << 16;  // bf16 is the upper half of an f32
  copy(&value, &wide, 4);
  return value;
}

}  // namespace

size_t packed_bytes(WeightFormat format, uint32_t rows, uint32_t columns) {
  return (rows + kRowGroup - 1) / kRowGroup * group_bytes(format, columns);
}

void pack(const PackArgs& args) {
  const size_t row_bytes = gguf_row_bytes(args.format, args.columns);
  for (uint32_t row = args.row_begin; row < args.row_end; row += kRowGroup) {
    uint8_t* group =
        (uint8_t*)args.packed + row / kRowGroup * group_bytes(args.format, args.columns);
    const uint32_t left = args.row_end - row;
    const uint32_t lanes = left < kRowGroup ? left : (uint32_t)kRowGroup;
    if (lanes < kRowGroup) __builtin_memset(group, 0, group_bytes(args.format, args.columns));
    for (uint32_t lane = 0; lane < lanes; ++lane) {
      pack_row(args, (const uint8_t*)args.source + (row + lane) * row_bytes, lane, group);
    }
  }
}

void unpack_row(WeightFormat format, const void* packed, uint32_t, uint32_t columns, uint32_t row,
                float* out) {
  const uint8_t* group = group_at(format, packed, columns, row);
  const uint32_t lane = row % kRowGroup;
  if (!is_quantised(format)) {
    const size_t bytes = value_bytes(format);
    for (uint32_t k = 0; k < columns; ++k) {
      out[k] = unpack_value(format, group + (k * kRowGroup + lane) * bytes);
    }
    return;
  }
  for (uint32_t b = 0; b < columns / kQuantBlock; ++b) {
    const uint8_t* block = group + b * block_bytes(format);
    if (format == WeightFormat::kQ8_0) {
      unpack_q8_block(block, lane, out + b * kQuantBlock);
    } else {
      unpack_q4_block(block, format, lane, out + b * kQuantBlock);
    }
  }
}

}  // namespace pacer::kernels::avx2
