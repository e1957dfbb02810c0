// GGUF rows to groups of 16 and back. tensor/code_block takes a block apart and says what it means;
// here its codes only change places, four at a time: word k of a block is columns 4k..4k+3.
//
// Bound: reading GGUF's bits, some tens of instructions for 32 weights.

#include "kernels/packed_rows.h"

#include <cstring>

#include "base/check.h"
#include "kernels/packed_layout.h"
#include "kernels/scalar/gguf_rows.h"
#include "tensor/code_block.h"

namespace pacer::kernels::packed {

namespace {

constexpr uint32_t kWords = kQuantBlock / 4;
constexpr uint32_t kEveryByte = 0x01010101;  // times a mask: the mask in each byte

static_assert(sizeof kIQ4Values == sizeof tensor::kIQ4Values);
static_assert(__builtin_memcmp(kIQ4Values, tensor::kIQ4Values, sizeof kIQ4Values) == 0);

uint32_t load_word(const uint8_t* at) {
  uint32_t word;
  std::memcpy(&word, at, sizeof word);
  return word;
}

void store_word(uint8_t* at, uint32_t word) {
  std::memcpy(at, &word, sizeof word);
}

uint16_t load_f16(const uint8_t* at) {
  uint16_t bits;
  std::memcpy(&bits, at, sizeof bits);
  return bits;
}

void store_f16(uint8_t* at, uint16_t bits) {
  std::memcpy(at, &bits, sizeof bits);
}

// One row's four bytes of line `line`.
uint8_t* in_line(uint8_t* codes, uint32_t line, uint32_t lane) {
  return codes + line * kLineBytes + 4 * lane;
}
const uint8_t* in_line(const uint8_t* codes, uint32_t line, uint32_t lane) {
  return codes + line * kLineBytes + 4 * lane;
}

// A line whose fields of `bits` bits come from words first, first + 1, ...: of each code the bits
// from `shift` on.
uint32_t gather(const uint32_t (&words)[kWords], uint32_t first, uint32_t shift, uint32_t bits) {
  const uint32_t mask = kEveryByte * ((1u << bits) - 1);
  uint32_t line = 0;
  for (uint32_t f = 0; f < 8 / bits; ++f) {
    line |= ((words[first + f] >> shift) & mask) << (f * bits);
  }
  return line;
}

// The way back.
void scatter(uint32_t line, uint32_t first, uint32_t shift, uint32_t bits,
             uint32_t (&words)[kWords]) {
  const uint32_t mask = kEveryByte * ((1u << bits) - 1);
  for (uint32_t f = 0; f < 8 / bits; ++f) {
    words[first + f] |= ((line >> (f * bits)) & mask) << shift;
  }
}

// What a block's codes are made of, as kCodes*Bytes: a low part, then the bits above it.
void write_codes(const uint32_t (&words)[kWords], uint32_t codes_bytes, uint32_t lane,
                 uint8_t* codes) {
  switch (codes_bytes) {
    case kCodes8Bytes:
      for (uint32_t k = 0; k < kWords; ++k) store_word(in_line(codes, k, lane), words[k]);
      return;
    case kCodes2Bytes:
    case kCodes3Bytes:
      store_word(in_line(codes, 0, lane), gather(words, 0, 0, 2));
      store_word(in_line(codes, 1, lane), gather(words, 4, 0, 2));
      if (codes_bytes == kCodes3Bytes) {
        store_word(in_line(codes, 2, lane), gather(words, 0, 2, 1));
      }
      return;
    default:
      break;
  }
  for (uint32_t j = 0; j < 4; ++j) {
    store_word(in_line(codes, j, lane), gather(words, 2 * j, 0, 4));
  }
  if (codes_bytes == kCodes5Bytes) store_word(in_line(codes, 4, lane), gather(words, 0, 4, 1));
  if (codes_bytes == kCodes6Bytes) {
    store_word(in_line(codes, 4, lane), gather(words, 0, 4, 2));
    store_word(in_line(codes, 5, lane), gather(words, 4, 4, 2));
  }
}

void read_codes(const uint8_t* codes, uint32_t codes_bytes, uint32_t lane,
                uint32_t (&words)[kWords]) {
  std::memset(words, 0, sizeof words);
  switch (codes_bytes) {
    case kCodes8Bytes:
      for (uint32_t k = 0; k < kWords; ++k) words[k] = load_word(in_line(codes, k, lane));
      return;
    case kCodes2Bytes:
    case kCodes3Bytes:
      scatter(load_word(in_line(codes, 0, lane)), 0, 0, 2, words);
      scatter(load_word(in_line(codes, 1, lane)), 4, 0, 2, words);
      if (codes_bytes == kCodes3Bytes) {
        scatter(load_word(in_line(codes, 2, lane)), 0, 2, 1, words);
      }
      return;
    default:
      break;
  }
  for (uint32_t j = 0; j < 4; ++j) {
    scatter(load_word(in_line(codes, j, lane)), 2 * j, 0, 4, words);
  }
  if (codes_bytes == kCodes5Bytes) scatter(load_word(in_line(codes, 4, lane)), 0, 4, 1, words);
  if (codes_bytes == kCodes6Bytes) {
    scatter(load_word(in_line(codes, 4, lane)), 0, 4, 2, words);
    scatter(load_word(in_line(codes, 5, lane)), 4, 4, 2, words);
  }
}

// The two bytes of a row that follow the codes in a block of a super-block format.
struct TailBytes {
  uint8_t first;
  uint8_t second;
};

TailBytes tail_of(WeightFormat format, const tensor::CodeBlock& block) {
  const auto byte = [](int value) { return static_cast<uint8_t>(value); };
  switch (format) {
    case WeightFormat::kQ4K:
    case WeightFormat::kQ5K:
      return {byte(block.scales[0]), byte(block.mins[0])};
    case WeightFormat::kQ2K:
      return {byte(block.scales[0] | block.mins[0] << 4),
              byte(block.scales[1] | block.mins[1] << 4)};
    case WeightFormat::kIQ4XS:
      return {byte(block.scales[0]), 0};
    default:  // Q3_K, Q6_K
      return {byte(block.scales[0]), byte(block.scales[1])};
  }
}

void set_from_tail(WeightFormat format, TailBytes tail, tensor::CodeBlock& block) {
  const auto set = [&](int s0, int s1, int m0, int m1) {
    block.scales[0] = static_cast<int8_t>(s0);
    block.scales[1] = static_cast<int8_t>(s1);
    block.mins[0] = static_cast<int8_t>(m0);
    block.mins[1] = static_cast<int8_t>(m1);
  };
  switch (format) {
    case WeightFormat::kQ4K:
    case WeightFormat::kQ5K:
      return set(tail.first, tail.first, tail.second, tail.second);
    case WeightFormat::kQ2K:
      return set(tail.first & 15, tail.second & 15, tail.first >> 4, tail.second >> 4);
    case WeightFormat::kIQ4XS:
      return set(tail.first, tail.first, 0, 0);
    default:  // Q3_K, Q6_K
      return set(tail.first, tail.second, 0, 0);
  }
}

// Where a span keeps the f16 of its rows: before the blocks, or behind the codes of the only one.
// The second vector of them, if there is one, follows the first.
struct F16Place {
  uint32_t offset;
  bool has_second;
};

F16Place f16_place(const SpanShape& shape) {
  const bool in_header = shape.header_bytes > 0;
  const uint32_t bytes = in_header ? shape.header_bytes : shape.tail_bytes;
  return {in_header ? 0 : shape.codes_bytes, bytes > kVectorF16Bytes};
}

// One GGUF block of one row into its span.
void pack_span(WeightFormat format, const std::byte* gguf, uint32_t lane, uint8_t* span) {
  const SpanShape shape = span_shape(format);
  const tensor::DType dtype = scalar::dtype_of(format);
  uint8_t* codes = span + shape.header_bytes;
  for (uint32_t part = 0; part < shape.columns / kQuantBlock; ++part) {
    const tensor::CodeBlock block = tensor::read_code_block(dtype, gguf, part);
    uint32_t words[kWords];
    std::memcpy(words, block.codes, sizeof words);
    write_codes(words, shape.codes_bytes, lane, codes);
    if (part == 0) {
      const F16Place place = f16_place(shape);
      store_f16(span + place.offset + 2 * lane, block.d);
      if (place.has_second) store_f16(span + place.offset + kVectorF16Bytes + 2 * lane, block.m);
    }
    if (shape.columns == kSuperBlock) {
      const TailBytes tail = tail_of(format, block);
      codes[shape.codes_bytes + lane] = tail.first;
      codes[shape.codes_bytes + kVectorI8Bytes + lane] = tail.second;
    }
    codes += shape.block_bytes();
  }
}

void unpack_span(WeightFormat format, const uint8_t* span, uint32_t lane, float* out) {
  const SpanShape shape = span_shape(format);
  const tensor::DType dtype = scalar::dtype_of(format);
  const F16Place place = f16_place(shape);
  const bool has_minimum = format == WeightFormat::kQ4_1 || format == WeightFormat::kQ5_1;
  tensor::CodeBlock block;
  block.d = load_f16(span + place.offset + 2 * lane);
  block.m =
      place.has_second ? load_f16(span + place.offset + kVectorF16Bytes + 2 * lane) : uint16_t{0};
  block.scales[0] = block.scales[1] = 1;
  block.mins[0] = block.mins[1] = has_minimum ? -1 : 0;

  const uint8_t* codes = span + shape.header_bytes;
  for (uint32_t part = 0; part < shape.columns / kQuantBlock; ++part) {
    uint32_t words[kWords];
    read_codes(codes, shape.codes_bytes, lane, words);
    std::memcpy(block.codes, words, sizeof words);
    if (shape.columns == kSuperBlock) {
      const uint8_t* tail = codes + shape.codes_bytes + lane;
      set_from_tail(format, {tail[0], tail[kVectorI8Bytes]}, block);
    }
    tensor::dequantize(dtype, block, out + part * kQuantBlock);
    codes += shape.block_bytes();
  }
}

// Spans outside, rows inside: what is written stays in L1 until it is whole.
void pack_group(const PackArgs& args, const std::byte* gguf, uint32_t lanes, uint8_t* group) {
  const size_t row_bytes = tensor::row_bytes(scalar::dtype_of(args.format), args.columns);
  if (lanes < kRowGroup) std::memset(group, 0, group_bytes(args.format, args.columns));
  if (!is_quantised(args.format)) {
    const size_t bytes = value_bytes(args.format);
    for (uint32_t k = 0; k < args.columns; ++k) {
      for (uint32_t lane = 0; lane < lanes; ++lane) {
        std::memcpy(group + (k * kRowGroup + lane) * bytes, gguf + lane * row_bytes + k * bytes,
                    bytes);
      }
    }
    return;
  }
  const SpanShape shape = span_shape(args.format);
  const size_t gguf_block = tensor::row_bytes(scalar::dtype_of(args.format), shape.columns);
  for (uint32_t s = 0; s < args.columns / shape.columns; ++s) {
    uint8_t* span = group + static_cast<size_t>(s) * shape.bytes();
    for (uint32_t lane = 0; lane < lanes; ++lane) {
      pack_span(args.format, gguf + lane * row_bytes + s * gguf_block, lane, span);
    }
  }
}

}  // namespace

size_t packed_bytes(WeightFormat format, uint32_t rows, uint32_t columns) {
  return static_cast<size_t>((rows + kRowGroup - 1) / kRowGroup) * group_bytes(format, columns);
}

void pack(const PackArgs& args) {
  CHECK(args.row_begin % kRowGroup == 0 && args.row_begin <= args.row_end &&
            args.row_end <= args.rows,
        "rows {}..{} of {}", args.row_begin, args.row_end, args.rows);
  const size_t row_bytes = tensor::row_bytes(scalar::dtype_of(args.format), args.columns);
  const size_t bytes = group_bytes(args.format, args.columns);
  for (uint32_t row = args.row_begin; row < args.row_end; row += kRowGroup) {
    const uint32_t left = args.row_end - row;
    pack_group(args, static_cast<const std::byte*>(args.source) + row * row_bytes,
               left < kRowGroup ? left : kRowGroup,
               static_cast<uint8_t*>(args.packed) + row / kRowGroup * bytes);
  }
}

void unpack_row(WeightFormat format, const void* packed, uint32_t rows, uint32_t columns,
                uint32_t row, float* out) {
  CHECK(row < rows, "row {} of {}", row, rows);
  const uint8_t* group = group_at(format, packed, columns, row);
  const uint32_t lane = row % kRowGroup;
  if (!is_quantised(format)) {
    const size_t bytes = value_bytes(format);
    for (uint32_t k = 0; k < columns; ++k) {
      const auto* at = reinterpret_cast<const std::byte*>(group + (k * kRowGroup + lane) * bytes);
      tensor::dequantize(scalar::dtype_of(format), at, 1, out + k);
    }
    return;
  }
  const SpanShape shape = span_shape(format);
  for (uint32_t s = 0; s < columns / shape.columns; ++s) {
    unpack_span(format, group + static_cast<size_t>(s) * shape.bytes(), lane,
                out + s * shape.columns);
  }
}

}  // namespace pacer::kernels::packed
