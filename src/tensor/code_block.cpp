// Where GGUF puts the bits of a block. Written to be checked by eye against the format.
//
// Blocks of 32 values. A byte of qs holds value j in its low nibble and value j + 16 in its high
// one; bit j of qh is the fifth bit of value j.
//
//   Q4_0    f16 d | qs[16]                       Q4_1   f16 d | f16 m | qs[16]
//   Q5_0    f16 d | u32 qh | qs[16]              Q5_1   f16 d | f16 m | u32 qh | qs[16]
//   Q8_0    f16 d | 32 int8                      IQ4_NL f16 d | qs[16]
//
// Blocks of 256 values: 8 parts of 32, or 16 groups of 16 that have a scale of their own.
//
//   Q2_K    scales[16] | qs[64] | f16 d | f16 dmin        a scale byte: scale, then minimum << 4
//   Q3_K    hmask[32] | qs[64] | scales[12] | f16 d       bit p of hmask[i]: third bit of part p
//   Q4_K    f16 d | f16 dmin | scales[12] | qs[128]
//   Q5_K    f16 d | f16 dmin | scales[12] | qh[32] | qs[128]   bit p of qh[i]: fifth bit of part p
//   Q6_K    ql[128] | qh[64] | int8 scales[16] | f16 d
//   IQ4_XS  f16 d | u16 scales_h | scales_l[4] | qs[128]
//
// Q2_K and Q3_K: 32 bytes of qs serve 4 parts, 2 bits each, lowest first; so does qh of Q6_K.
// Q4_K and Q5_K: 32 bytes of qs serve 2 parts, a nibble each, lowest first. ql of Q6_K: the low
// nibbles of 64 bytes are two parts, the high ones the next two. IQ4_XS: a part has 16 bytes of qs,
// laid out as in a block of 32.
#include "tensor/code_block.h"

#include <cstring>

#include "base/check.h"

namespace pacer::tensor {
namespace {

constexpr size_t kHalf = kCodeBlock / 2;

const uint8_t* bytes_at(const std::byte* block, size_t offset) {
  return reinterpret_cast<const uint8_t*>(block + offset);
}

uint16_t u16_at(const std::byte* block, size_t offset) {
  uint16_t value;
  std::memcpy(&value, block + offset, sizeof value);
  return value;
}

uint32_t u32_at(const std::byte* block, size_t offset) {
  uint32_t value;
  std::memcpy(&value, block + offset, sizeof value);
  return value;
}

void set_scales(CodeBlock& out, int first, int second) {
  out.scales[0] = static_cast<int8_t>(first);
  out.scales[1] = static_cast<int8_t>(second);
}

void set_mins(CodeBlock& out, int first, int second) {
  out.mins[0] = static_cast<int8_t>(first);
  out.mins[1] = static_cast<int8_t>(second);
}

// codes = `bits` bits of each of 32 bytes, from `shift` on.
void set_fields(CodeBlock& out, const uint8_t* bytes, uint32_t shift, uint32_t bits) {
  const uint32_t mask = (1u << bits) - 1;
  for (size_t i = 0; i < kCodeBlock; ++i) {
    out.codes[i] = static_cast<uint8_t>((bytes[i] >> shift) & mask);
  }
}

// codes |= `bits` bits of each of 32 bytes, from `shift` on, put at bit `at`.
void add_fields(CodeBlock& out, const uint8_t* bytes, uint32_t shift, uint32_t bits, uint32_t at) {
  const uint32_t mask = (1u << bits) - 1;
  for (size_t i = 0; i < kCodeBlock; ++i) {
    out.codes[i] |= static_cast<uint8_t>(((bytes[i] >> shift) & mask) << at);
  }
}

void set_nibbles(CodeBlock& out, const uint8_t* qs) {
  for (size_t j = 0; j < kHalf; ++j) {
    out.codes[j] = qs[j] & 15;
    out.codes[j + kHalf] = qs[j] >> 4;
  }
}

void add_fifth_bits(CodeBlock& out, uint32_t qh) {
  for (size_t i = 0; i < kCodeBlock; i += 4) {
    // Four bits to the lowest bits of four bytes: the product holds bit k of them at 7k + k = 8k.
    const uint32_t four = (((qh >> i) & 15) * 0x00204081u) & 0x01010101u;
    uint32_t codes;
    std::memcpy(&codes, out.codes + i, sizeof codes);
    codes |= four << 4;
    std::memcpy(out.codes + i, &codes, sizeof codes);
  }
}

// The 6-bit scale and minimum of a part of Q4_K and Q5_K. Bytes 0-3 begin with the scales of parts
// 0-3, bytes 4-7 with their minima, bytes 8-11 are the low nibbles of scale and minimum of parts
// 4-7, whose upper two bits are on top of bytes 0-3 and 4-7.
void set_scale_and_min(CodeBlock& out, const uint8_t* packed, uint32_t part) {
  int scale;
  int min;
  if (part < 4) {
    scale = packed[part] & 63;
    min = packed[4 + part] & 63;
  } else {
    scale = (packed[4 + part] & 15) | ((packed[part - 4] >> 6) << 4);
    min = (packed[4 + part] >> 4) | ((packed[part] >> 6) << 4);
  }
  set_scales(out, scale, scale);
  set_mins(out, min, min);
}

// The 6-bit scale of group `group` of Q3_K: low nibbles in bytes 0-7 (groups 0-7 low, 8-15 high),
// upper two bits in bytes 8-11 (four groups a byte: g, g + 4, g + 8, g + 12).
int q3k_scale(const uint8_t* packed, uint32_t group) {
  const int low = (packed[group % 8] >> (group / 8 * 4)) & 15;
  const int high = (packed[8 + group % 4] >> (group / 4 * 2)) & 3;
  return (low | (high << 4)) - 32;
}

void read_q2k(CodeBlock& out, const std::byte* block, uint32_t part) {
  const uint8_t* scales = bytes_at(block, 0) + 2 * part;
  set_fields(out, bytes_at(block, 16) + part / 4 * 32, part % 4 * 2, 2);
  out.d = u16_at(block, 80);
  out.m = u16_at(block, 82);
  set_scales(out, scales[0] & 15, scales[1] & 15);
  set_mins(out, scales[0] >> 4, scales[1] >> 4);
}

void read_q3k(CodeBlock& out, const std::byte* block, uint32_t part) {
  const uint8_t* scales = bytes_at(block, 96);
  set_fields(out, bytes_at(block, 32) + part / 4 * 32, part % 4 * 2, 2);
  add_fields(out, bytes_at(block, 0), part, 1, 2);
  out.d = u16_at(block, 108);
  set_scales(out, q3k_scale(scales, 2 * part), q3k_scale(scales, 2 * part + 1));
}

void read_q4k(CodeBlock& out, const std::byte* block, uint32_t part) {
  set_fields(out, bytes_at(block, 16) + part / 2 * 32, part % 2 * 4, 4);
  out.d = u16_at(block, 0);
  out.m = u16_at(block, 2);
  set_scale_and_min(out, bytes_at(block, 4), part);
}

void read_q5k(CodeBlock& out, const std::byte* block, uint32_t part) {
  set_fields(out, bytes_at(block, 48) + part / 2 * 32, part % 2 * 4, 4);
  add_fields(out, bytes_at(block, 16), part, 1, 4);
  out.d = u16_at(block, 0);
  out.m = u16_at(block, 2);
  set_scale_and_min(out, bytes_at(block, 4), part);
}

void read_q6k(CodeBlock& out, const std::byte* block, uint32_t part) {
  const uint8_t* scales = bytes_at(block, 192) + 2 * part;
  const uint32_t quarter = part % 4;
  set_fields(out, bytes_at(block, 0) + part / 4 * 64 + quarter % 2 * 32, quarter / 2 * 4, 4);
  add_fields(out, bytes_at(block, 128) + part / 4 * 32, quarter * 2, 2, 4);
  out.d = u16_at(block, 208);
  set_scales(out, static_cast<int8_t>(scales[0]), static_cast<int8_t>(scales[1]));
}

void read_iq4xs(CodeBlock& out, const std::byte* block, uint32_t part) {
  const int low = (bytes_at(block, 4)[part / 2] >> (part % 2 * 4)) & 15;
  const int high = (u16_at(block, 2) >> (2 * part)) & 3;
  const int scale = (low | (high << 4)) - 32;
  set_nibbles(out, bytes_at(block, 8) + 16 * part);
  out.d = u16_at(block, 0);
  set_scales(out, scale, scale);
}

}  // namespace

bool has_codes(DType dtype) {
  return dtype != DType::kF32 && dtype != DType::kF16 && dtype != DType::kBF16;
}

CodeBlock read_code_block(DType dtype, const std::byte* block, uint32_t part) {
  CodeBlock out;
  out.d = u16_at(block, 0);
  out.m = 0;
  set_scales(out, 1, 1);
  set_mins(out, 0, 0);
  switch (dtype) {
    case DType::kQ4_0:
    case DType::kIQ4NL:
      set_nibbles(out, bytes_at(block, 2));
      return out;
    case DType::kQ4_1:
      out.m = u16_at(block, 2);
      set_mins(out, -1, -1);
      set_nibbles(out, bytes_at(block, 4));
      return out;
    case DType::kQ5_0:
      set_nibbles(out, bytes_at(block, 6));
      add_fifth_bits(out, u32_at(block, 2));
      return out;
    case DType::kQ5_1:
      out.m = u16_at(block, 2);
      set_mins(out, -1, -1);
      set_nibbles(out, bytes_at(block, 8));
      add_fifth_bits(out, u32_at(block, 4));
      return out;
    case DType::kQ8_0:
      std::memcpy(out.codes, block + 2, kCodeBlock);
      return out;
    case DType::kQ2K:
      read_q2k(out, block, part);
      return out;
    case DType::kQ3K:
      read_q3k(out, block, part);
      return out;
    case DType::kQ4K:
      read_q4k(out, block, part);
      return out;
    case DType::kQ5K:
      read_q5k(out, block, part);
      return out;
    case DType::kQ6K:
      read_q6k(out, block, part);
      return out;
    case DType::kIQ4XS:
      read_iq4xs(out, block, part);
      return out;
    case DType::kF32:
    case DType::kF16:
    case DType::kBF16:
      break;
  }
  CHECK(false, "{} has no codes", ggml_type_name(static_cast<uint32_t>(dtype)));
}

int code_centre(DType dtype) {
  switch (dtype) {
    case DType::kQ4_0:
      return 8;
    case DType::kQ5_0:
      return 16;
    case DType::kQ3K:
      return 4;
    case DType::kQ6K:
      return 32;
    default:
      return 0;
  }
}

void code_values(DType dtype, const uint8_t (&codes)[kCodeBlock], int8_t (&values)[kCodeBlock]) {
  if (dtype == DType::kIQ4NL || dtype == DType::kIQ4XS) {
    for (size_t i = 0; i < kCodeBlock; ++i) values[i] = kIQ4Values[codes[i]];
    return;
  }
  const int centre = code_centre(dtype);
  for (size_t i = 0; i < kCodeBlock; ++i) values[i] = static_cast<int8_t>(codes[i] - centre);
}

// d * scale is rounded before it meets the value, and the minimum's product before it is taken off:
// the order of operations of the format's reference implementation.
void dequantize(DType dtype, const CodeBlock& block, float* dst) {
  int8_t values[kCodeBlock];
  code_values(dtype, block.codes, values);
  const float d = f16_to_f32(block.d);
  const float m = f16_to_f32(block.m);
  for (size_t h = 0; h < 2; ++h) {
    const float scale = d * static_cast<float>(block.scales[h]);
    const float min = m * static_cast<float>(block.mins[h]);
    for (size_t i = h * kHalf; i < (h + 1) * kHalf; ++i) {
      dst[i] = scale * static_cast<float>(values[i]) - min;
    }
  }
}

}  // namespace pacer::tensor
