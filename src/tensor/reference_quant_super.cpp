// Blocks of 256 values: groups of 16 or 32 whose scales (and minima) are small integers, counted in
// the block's own f16 d (and dmin).
//
// In three steps: what scale and minimum each group would like; d and dmin, so that the largest of
// them is the largest integer; codes, with the scales that were really stored.
#include <array>

#include "tensor/reference_quant_block.h"

namespace pacer::tensor {
namespace {

constexpr size_t kSuper = 256;

// d as it will be read back: codes are chosen with that, not with what it was before rounding.
float stored_f16(std::byte* dst, float value) {
  store_f16(dst, value);
  return f16_to_f32(f32_to_f16(value));
}

uint8_t* bytes_at(std::byte* block, size_t offset) {
  return reinterpret_cast<uint8_t*>(block + offset);
}

// Codes of all 256 values with their groups' integers.
struct SuperCodes {
  std::array<uint8_t, kSuper> codes;
  std::array<int, 16> scales;
  std::array<int, 16> mins;
};

// Q2_K, Q4_K, Q5_K: a group goes from its lowest value (or 0, if all are above) in `steps` steps to
// its highest.
SuperCodes quantize_with_minima(const float* src, size_t group, int steps, int scale_max,
                                std::byte* d_at, std::byte* dmin_at) {
  const size_t groups = kSuper / group;
  std::array<float, 16> scales{};
  std::array<float, 16> mins{};
  for (size_t g = 0; g < groups; ++g) {
    const auto [low, high] = std::minmax_element(src + g * group, src + (g + 1) * group);
    mins[g] = std::max(0.0f, -*low);
    scales[g] = std::max(0.0f, *high + mins[g]) / static_cast<float>(steps);
  }
  const float limit = static_cast<float>(scale_max);
  const float d = stored_f16(d_at, *std::max_element(scales.begin(), scales.end()) / limit);
  const float dmin = stored_f16(dmin_at, *std::max_element(mins.begin(), mins.end()) / limit);

  SuperCodes out{};
  for (size_t g = 0; g < groups; ++g) {
    out.scales[g] = clamp_code(scales[g] * inverse(d), 0, scale_max);
    out.mins[g] = clamp_code(mins[g] * inverse(dmin), 0, scale_max);
    const float scale = d * static_cast<float>(out.scales[g]);
    const float min = dmin * static_cast<float>(out.mins[g]);
    for (size_t i = g * group; i < (g + 1) * group; ++i) {
      out.codes[i] = static_cast<uint8_t>(clamp_code((src[i] + min) * inverse(scale), 0, steps));
    }
  }
  return out;
}

// Q3_K, Q6_K, IQ4_XS: a group's value of the largest magnitude is placed at `lowest`, its lowest
// code value; the scale of the largest magnitude at -scale_limit. Codes follow in encode().
SuperCodes quantize_scales(const float* src, size_t group, int lowest, int scale_limit,
                           std::byte* d_at, float* d) {
  const size_t groups = kSuper / group;
  std::array<float, 16> scales{};
  for (size_t g = 0; g < groups; ++g) {
    scales[g] = extreme_of(src + g * group, group) / static_cast<float>(lowest);
  }
  *d = stored_f16(d_at, extreme_of(scales.data(), groups) / static_cast<float>(-scale_limit));
  SuperCodes out{};
  for (size_t g = 0; g < groups; ++g) {
    out.scales[g] = clamp_code(scales[g] * inverse(*d), -scale_limit, scale_limit - 1);
  }
  return out;
}

void encode_centred(const float* src, size_t group, int centre, float d, SuperCodes& out) {
  for (size_t i = 0; i < kSuper; ++i) {
    const float scaled = src[i] * inverse(d * static_cast<float>(out.scales[i / group]));
    out.codes[i] = static_cast<uint8_t>(clamp_code(scaled, -centre, centre - 1) + centre);
  }
}

// `bits` bits of 128 codes into 32 bytes: those of code i at bit i / 32 * bits of byte i % 32.
void store_fields(const uint8_t* codes, size_t count, uint32_t shift, uint32_t bits, uint8_t* dst) {
  for (size_t i = 0; i < count; ++i) {
    const uint32_t field = (codes[i] >> shift) & ((1u << bits) - 1);
    dst[i % 32] = static_cast<uint8_t>(dst[i % 32] | field << (i / 32 * bits));
  }
}

// Six bits of scale and minimum: the reverse of set_scale_and_min in code_block.cpp.
void store_scales_and_mins(const SuperCodes& from, uint8_t* dst) {
  for (size_t p = 0; p < 4; ++p) {
    const int scale = from.scales[p + 4];
    const int min = from.mins[p + 4];
    dst[p] = static_cast<uint8_t>(from.scales[p] | (scale >> 4) << 6);
    dst[4 + p] = static_cast<uint8_t>(from.mins[p] | (min >> 4) << 6);
    dst[8 + p] = static_cast<uint8_t>((scale & 15) | (min & 15) << 4);
  }
}

}  // namespace

void quantize_q2k(const float* src, std::byte* block) {
  std::memset(block, 0, 84);
  const SuperCodes codes = quantize_with_minima(src, 16, 3, 15, block + 80, block + 82);
  for (size_t g = 0; g < 16; ++g) {
    block[g] = static_cast<std::byte>(codes.scales[g] | codes.mins[g] << 4);
  }
  store_fields(&codes.codes[0], 128, 0, 2, bytes_at(block, 16));
  store_fields(&codes.codes[128], 128, 0, 2, bytes_at(block, 48));
}

void quantize_q3k(const float* src, std::byte* block) {
  std::memset(block, 0, 110);
  float d;
  SuperCodes codes = quantize_scales(src, 16, -4, 32, block + 108, &d);
  encode_centred(src, 16, 4, d, codes);
  store_fields(codes.codes.data(), 256, 2, 1, bytes_at(block, 0));
  store_fields(&codes.codes[0], 128, 0, 2, bytes_at(block, 32));
  store_fields(&codes.codes[128], 128, 0, 2, bytes_at(block, 64));
  uint8_t* scales = bytes_at(block, 96);
  for (size_t g = 0; g < 16; ++g) {  // the reverse of q3k_scale in code_block.cpp
    const int scale = codes.scales[g] + 32;
    scales[g % 8] = static_cast<uint8_t>(scales[g % 8] | (scale & 15) << (g / 8 * 4));
    scales[8 + g % 4] = static_cast<uint8_t>(scales[8 + g % 4] | (scale >> 4) << (g / 4 * 2));
  }
}

void quantize_q4k(const float* src, std::byte* block) {
  std::memset(block, 0, 144);
  const SuperCodes codes = quantize_with_minima(src, 32, 15, 63, block, block + 2);
  store_scales_and_mins(codes, bytes_at(block, 4));
  for (size_t i = 0; i < 256; i += 64) {
    store_fields(&codes.codes[i], 64, 0, 4, bytes_at(block, 16 + i / 2));
  }
}

void quantize_q5k(const float* src, std::byte* block) {
  std::memset(block, 0, 176);
  const SuperCodes codes = quantize_with_minima(src, 32, 31, 63, block, block + 2);
  store_scales_and_mins(codes, bytes_at(block, 4));
  store_fields(codes.codes.data(), 256, 4, 1, bytes_at(block, 16));
  for (size_t i = 0; i < 256; i += 64) {
    store_fields(&codes.codes[i], 64, 0, 4, bytes_at(block, 48 + i / 2));
  }
}

void quantize_q6k(const float* src, std::byte* block) {
  std::memset(block, 0, 210);
  float d;
  SuperCodes codes = quantize_scales(src, 16, -32, 128, block + 208, &d);
  encode_centred(src, 16, 32, d, codes);
  for (size_t i = 0; i < 128; ++i) {  // codes 0-63 and 64-127 of each half share 64 bytes
    const size_t low = i / 64 * 128 + i % 64;
    block[i] = static_cast<std::byte>((codes.codes[low] & 15) | (codes.codes[low + 64] & 15) << 4);
  }
  store_fields(&codes.codes[0], 128, 4, 2, bytes_at(block, 128));
  store_fields(&codes.codes[128], 128, 4, 2, bytes_at(block, 160));
  for (size_t g = 0; g < 16; ++g) block[192 + g] = static_cast<std::byte>(codes.scales[g]);
}

void quantize_iq4xs(const float* src, std::byte* block) {
  std::memset(block, 0, 136);
  float d;
  SuperCodes codes = quantize_scales(src, 32, -127, 32, block, &d);
  uint16_t high = 0;
  for (size_t p = 0; p < 8; ++p) {
    const float scale = d * static_cast<float>(codes.scales[p]);
    for (size_t i = p * 32; i < (p + 1) * 32; ++i) {
      codes.codes[i] = nearest_iq4(src[i] * inverse(scale));
    }
    store_nibbles(&codes.codes[p * 32], block + 8 + 16 * p);
    const int stored = codes.scales[p] + 32;
    bytes_at(block, 4)[p / 2] |= static_cast<uint8_t>((stored & 15) << (p % 2 * 4));
    high = static_cast<uint16_t>(high | (stored >> 4) << (2 * p));
  }
  store_u16(block + 2, high);
}

}  // namespace pacer::tensor
