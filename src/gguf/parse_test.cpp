// Files that are wrong, each in one way, and what is said about them; and files that are wrong in
// every way.
#include "gguf/parse.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <tuple>
#include <utility>

#include "base/rng.h"
#include "base/test_seed.h"
#include "gguf/test_gguf.h"

namespace pacer::gguf {
namespace {

using tensor::DType;
using testing::AllOf;
using testing::HasSubstr;

constexpr uint32_t kF32 = static_cast<uint32_t>(DType::kF32);

// Parses a heap copy of exactly this size, so that a sanitizer sees a read of one byte too many.
Result<Parsed> parse_exact(std::span<const std::byte> bytes) {
  const auto copy = std::make_unique<std::byte[]>(bytes.size());
  std::copy(bytes.begin(), bytes.end(), copy.get());
  auto parsed = parse({copy.get(), bytes.size()});
  if (parsed) {  // touch everything while the copy lives
    unsigned sum = 0;
    for (const TensorInfo& t : parsed->tensors) {
      for (std::byte b : t.data) sum += std::to_integer<unsigned>(b);
      sum += static_cast<unsigned>(t.name.size() + t.columns() + t.rows());
    }
    volatile unsigned keep = sum;
    (void)keep;
  }
  return parsed;
}

std::string why(const std::vector<std::byte>& bytes) {
  auto parsed = parse_exact(bytes);
  return parsed ? "(parsed)" : parsed.error().message;
}
std::string why(const GgufWriter& writer) {
  return why(writer.bytes());
}

// One of everything, small.
GgufWriter small_model() {
  GgufWriter w;
  w.add_string("general.architecture", "llama").add_u32("general.alignment", 32);
  w.add_bool("flag", true).add_f32("scale", 1.5f).add_strings("tokenizer.ggml.tokens", {"a", "bc"});
  w.add_floats("tokenizer.ggml.scores", {0.0f, -1.0f})
      .add_ints("tokenizer.ggml.token_type", {1, 3});
  w.add_tensor("a", DType::kF32, {3, 2}, std::vector<float>(6, 1.0f));
  w.add_tensor("b", DType::kQ4_1, {32, 2}, std::vector<float>(64, 2.0f));
  return w;
}

TEST(GgufParse, TheSmallModelIsRight) {
  EXPECT_EQ(why(small_model()), "(parsed)");
}

TEST(GgufParse, AFileCutShortSaysSo) {
  const std::vector<std::byte> whole = small_model().bytes();
  for (size_t percent : {10, 50, 99}) {
    std::vector<std::byte> cut(whole.begin(), whole.begin() + whole.size() * percent / 100);
    EXPECT_THAT(why(cut), HasSubstr("cut short?")) << percent << " %";
  }
}

// Every length below the whole is refused: there is no prefix that passes for a model.
TEST(GgufParse, NoPrefixOfAModelIsAModel) {
  const std::vector<std::byte> whole = small_model().bytes();
  for (size_t size = 0; size < whole.size(); ++size) {
    ASSERT_FALSE(parse_exact(std::span(whole).first(size))) << size;
  }
}

TEST(GgufParse, OtherFilesAreToldApart) {
  GgufWriter w = small_model();
  w.magic = 0x04034b50;  // a zip archive
  EXPECT_THAT(why(w), HasSubstr("not a GGUF file"));
  EXPECT_THAT(why(std::vector<std::byte>(3)), HasSubstr("not a GGUF file"));
  w = small_model();
  w.magic = 0x47475546;
  EXPECT_THAT(why(w), HasSubstr("big-endian"));
  w = small_model();
  w.version = 0x03000000;  // 3, as a big-endian writer lays it out under the same magic
  EXPECT_THAT(why(w), HasSubstr("big-endian"));
  for (uint32_t version : {0u, 1u, 4u}) {
    w.version = version;
    EXPECT_THAT(why(w), HasSubstr(fmt::format("GGUF version {}; supported are 2 and 3", version)));
  }
}

TEST(GgufParse, CountsOfTheHeaderAreBounded) {
  GgufWriter w;
  w.extra_keys = uint64_t{1} << 63;
  EXPECT_THAT(why(w), AllOf(HasSubstr("9223372036854775808 metadata keys"), HasSubstr("65536")));
  w.extra_keys = kMetadataKeysMax;  // allowed, but not there
  EXPECT_THAT(why(w), HasSubstr("cut short?"));
  w.extra_keys = 0;
  w.extra_tensors = kTensorsMax + 1;
  EXPECT_THAT(why(w), HasSubstr("131073 tensors; the limit is 131072"));
  w.extra_tensors = kTensorsMax;
  EXPECT_THAT(why(w), HasSubstr("cut short?"));
}

TEST(GgufParse, KeysHaveANameOfTheirOwn) {
  EXPECT_THAT(why(GgufWriter().add_u32("ok", 1).add_u32("", 1)),
              HasSubstr("metadata key 1 has an empty name"));
  EXPECT_THAT(why(GgufWriter().add_u32("twin", 1).add_f32("twin", 1)),
              HasSubstr("metadata key 'twin' appears twice"));
  EXPECT_EQ(why(GgufWriter().add_u32(std::string(kKeyBytesMax, 'k'), 1)), "(parsed)");
  EXPECT_THAT(why(GgufWriter().add_u32(std::string(kKeyBytesMax + 1, 'k'), 1)),
              HasSubstr("65536 bytes long; the limit is 65535"));
}

TEST(GgufParse, HostileNamesAreShownHarmlessly) {
  const std::string message = why(GgufWriter().scalar<uint8_t>("\x1b[31m\n", ValueType::kBool, 7));
  EXPECT_EQ(message, "metadata key '?[31m?' has the byte 7 as a BOOL; it must be 0 or 1");
}

TEST(GgufParse, ValueTypesAreKnown) {
  EXPECT_THAT(why(GgufWriter().scalar("k", static_cast<ValueType>(13), 0)),
              HasSubstr("metadata key 'k' has unknown type 13"));
  EXPECT_THAT(why(GgufWriter().start_array("k", static_cast<ValueType>(77), 1)),
              HasSubstr("unknown type 77"));
}

TEST(GgufParse, ArraysAreFlatAndBounded) {
  EXPECT_THAT(why(GgufWriter().start_array("k", ValueType::kArray, 1)),
              HasSubstr("array of arrays"));
  EXPECT_THAT(why(GgufWriter().start_array("k", ValueType::kUint8, kArrayElementsMax + 1)),
              HasSubstr("4194305 elements; the limit is 4194304"));
  EXPECT_THAT(why(GgufWriter().start_array("k", ValueType::kUint8, ~uint64_t{0})),
              HasSubstr("the limit is 4194304"));
  EXPECT_THAT(why(GgufWriter().start_array("k", ValueType::kString, kArrayElementsMax)),
              HasSubstr("more than the rest of the file holds"));
  // 24 bytes hold three strings only if all are empty.
  EXPECT_THAT(why(GgufWriter().start_array("k", ValueType::kUint64, 1)),
              HasSubstr("more than the rest of the file holds"));
}

TEST(GgufParse, ArraysAreBoundedTogether) {
  GgufWriter w;
  const std::vector<uint8_t> most(kArrayElementsMax);
  for (int i = 0; i < 4; ++i) w.array(fmt::format("k{}", i), ValueType::kUint8, most);
  EXPECT_EQ(why(w), "(parsed)");
  w.array<uint8_t>("k4", ValueType::kUint8, {1});
  EXPECT_THAT(why(w), HasSubstr("brings the elements of all arrays to 16777217"));
}

TEST(GgufParse, StringsAreBounded) {
  GgufWriter w;
  w.scalar<uint64_t>("text", ValueType::kString, kStringBytesMax + 1);  // the length alone
  EXPECT_THAT(why(w), HasSubstr("16777217 bytes long; the limit is 16777216"));
  GgufWriter endless;
  endless.scalar<uint64_t>("text", ValueType::kString, ~uint64_t{0});
  EXPECT_THAT(why(endless), HasSubstr("the limit is 16777216"));
  GgufWriter beyond;
  beyond.scalar<uint64_t>("text", ValueType::kString, 5);
  EXPECT_THAT(why(beyond), HasSubstr("inside metadata key 'text'"));
}

TEST(GgufParse, TokenizerArraysHaveTheTypeThatReadersTrust) {
  EXPECT_EQ(
      why(GgufWriter().array<uint8_t>("tokenizer.ggml.scores", ValueType::kUint8, {1, 2})),
      "metadata key 'tokenizer.ggml.scores' is an ARRAY of UINT8; it must be an ARRAY of FLOAT32");
  EXPECT_THAT(why(GgufWriter().add_f32("tokenizer.ggml.scores", 1)),
              HasSubstr("is FLOAT32; it must be"));
  EXPECT_THAT(why(GgufWriter().add_ints("tokenizer.ggml.tokens", {1})),
              HasSubstr("an ARRAY of STRING"));
  EXPECT_THAT(why(GgufWriter().add_string("tokenizer.ggml.merges", "a b")),
              HasSubstr("an ARRAY of STRING"));
  EXPECT_THAT(why(GgufWriter().add_floats("tokenizer.ggml.token_type", {1})),
              HasSubstr("an ARRAY of INT32"));
}

TEST(GgufParse, AlignmentIsAPowerOfTwoGivenAsUint32) {
  EXPECT_THAT(why(GgufWriter().add_i32("general.alignment", 32)),
              HasSubstr("is INT32; it must be UINT32"));
  EXPECT_THAT(why(GgufWriter().add_u64("general.alignment", 32)),
              HasSubstr("is UINT64; it must be UINT32"));
  for (uint32_t wrong : {0u, 3u, 33u, 2 * kAlignmentMax, 4294967295u}) {
    EXPECT_THAT(
        why(GgufWriter().add_u32("general.alignment", wrong)),
        HasSubstr(fmt::format("general.alignment is {}; it must be a power of two", wrong)));
  }
  for (uint32_t right : {1u, 32u, 4096u, kAlignmentMax}) {
    GgufWriter w;
    w.alignment = right;
    w.add_u32("general.alignment", right);
    w.add_tensor("a", DType::kF32, {3}, {1, 2, 3}).add_tensor("b", DType::kF32, {1}, {4});
    auto bytes = w.bytes();
    auto parsed = parse(bytes);
    ASSERT_TRUE(parsed) << parsed.error().message;
    float b = 0;
    tensor::dequantize(DType::kF32, parsed->tensors[1].data.data(), 1, &b);
    EXPECT_EQ(b, 4.0f) << "alignment " << right;
  }
}

TEST(GgufParse, TensorsHaveANameOfTheirOwn) {
  EXPECT_THAT(why(GgufWriter().add_tensor("", DType::kF32, {1}, {1})),
              HasSubstr("tensor 0 has an empty name"));
  GgufWriter twins;
  twins.add_tensor("t", DType::kF32, {1}, {1}).add_tensor("t", DType::kF32, {1}, {2});
  EXPECT_THAT(why(twins), HasSubstr("tensor 't' appears twice"));
  EXPECT_THAT(why(GgufWriter().add_tensor(std::string(257, 't'), DType::kF32, {1}, {1})),
              HasSubstr("257 bytes long; the limit is 256"));
}

TEST(GgufParse, ShapesAreOneToFourDimensionsNoneZero) {
  EXPECT_THAT(why(GgufWriter().add_entry("t", kF32, {}, 0)),
              HasSubstr("tensor 't' has 0 dimensions"));
  EXPECT_THAT(why(GgufWriter().add_entry("t", kF32, {1, 1, 1, 1, 1}, 0)),
              HasSubstr("has 5 dimensions"));
  EXPECT_THAT(why(GgufWriter().add_entry("t", kF32, {4, 0}, 0)),
              HasSubstr("dimension 1 of tensor 't' is 0"));
  EXPECT_EQ(why(GgufWriter().add_tensor("t", DType::kF32, {1, 1, 1, 2}, {1, 2})), "(parsed)");
}

TEST(GgufParse, SizesNeitherOverflowNorLeaveTheFile) {
  const uint64_t huge = (uint64_t{1} << 42) + 1;
  EXPECT_THAT(why(GgufWriter().add_entry("t", kF32, {huge}, 0)),
              AllOf(HasSubstr("tensor 't' needs 17592186044420 bytes"), HasSubstr("cut short?")));
  EXPECT_THAT(why(GgufWriter().add_entry("t", kF32, {huge, huge}, 0)),
              HasSubstr("overflows 64 bits"));
  // The product of these wraps to exactly 0, and to a tiny number.
  const uint64_t half = uint64_t{1} << 32;
  EXPECT_THAT(why(GgufWriter().add_entry("t", kF32, {half, half}, 0)),
              HasSubstr("overflows 64 bits"));
  EXPECT_THAT(why(GgufWriter().add_entry("t", kF32, {uint64_t{1} << 62}, 0)),
              HasSubstr("overflows 64 bits"));
  // Blocks fit 64 bits, values do not.
  const uint32_t q4_0 = static_cast<uint32_t>(DType::kQ4_0);
  EXPECT_THAT(why(GgufWriter().add_entry("t", q4_0, {uint64_t{1} << 63, 2}, 0)),
              HasSubstr("overflows 64 bits"));
}

TEST(GgufParse, RowsAreWholeBlocks) {
  EXPECT_THAT(
      why(GgufWriter().add_entry("t", static_cast<uint32_t>(DType::kQ4_1), {33, 32}, 0)),
      HasSubstr("tensor 't' has 33 columns, which is not a multiple of the Q4_1 block of 32"));
}

TEST(GgufParse, UnsupportedTypesAreNamedWithWhatIsSupported) {
  EXPECT_EQ(
      why(GgufWriter().add_entry("blk.0.ffn_up.weight", 16, {256}, 0)),
      "tensor 'blk.0.ffn_up.weight' is of type IQ2_XXS, which is not supported; supported are "
      "F32, F16, Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, Q2_K, Q3_K, Q4_K, Q5_K, Q6_K, IQ4_NL, "
      "IQ4_XS, BF16");
  const std::pair<uint32_t, const char*> refused[] = {
      {9, "Q8_1"},   {15, "Q8_K"},  {17, "IQ2_XS"}, {18, "IQ3_XXS"}, {19, "IQ1_S"},
      {21, "IQ3_S"}, {22, "IQ2_S"}, {26, "I32"},    {28, "F64"},     {29, "IQ1_M"},
      {34, "TQ1_0"}, {35, "TQ2_0"}, {39, "MXFP4"},  {40, "NVFP4"},
  };
  for (const auto& [number, name] : refused) {
    EXPECT_THAT(why(GgufWriter().add_entry("w", number, {256}, 0)),
                HasSubstr(fmt::format("tensor 'w' is of type {}, which is not", name)));
  }
  const auto parsed = parse(GgufWriter().add_entry("t", 4294967295u, {256}, 0).bytes());
  EXPECT_EQ(parsed.error().code, Code::kUnsupported);
  EXPECT_THAT(parsed.error().message, HasSubstr("is of type 4294967295, which"));
}

TEST(GgufParse, EveryFormatHasItsBlockSize) {
  const std::tuple<DType, uint64_t, uint64_t> formats[] = {
      {DType::kF32, 1, 4},     {DType::kF16, 1, 2},     {DType::kBF16, 1, 2},
      {DType::kQ4_0, 32, 18},  {DType::kQ4_1, 32, 20},  {DType::kQ5_0, 32, 22},
      {DType::kQ5_1, 32, 24},  {DType::kQ8_0, 32, 34},  {DType::kQ2K, 256, 84},
      {DType::kQ3K, 256, 110}, {DType::kQ4K, 256, 144}, {DType::kQ5K, 256, 176},
      {DType::kQ6K, 256, 210}, {DType::kIQ4NL, 32, 18}, {DType::kIQ4XS, 256, 136},
  };
  for (const auto& [dtype, values, bytes] : formats) {
    const auto type = static_cast<uint32_t>(dtype);
    GgufWriter just, short_by_one;
    just.add_raw_tensor("t", type, {2 * values, 3}, std::vector<std::byte>(6 * bytes));
    EXPECT_EQ(why(just), "(parsed)") << type;
    short_by_one.add_raw_tensor("t", type, {2 * values, 3}, std::vector<std::byte>(6 * bytes - 1));
    EXPECT_THAT(why(short_by_one), HasSubstr(fmt::format("needs {} bytes", 6 * bytes))) << type;
  }
}

TEST(GgufParse, AVocabularyWithoutTensorsIsAFile) {
  GgufWriter w;
  w.add_string("general.architecture", "bert").add_strings("tokenizer.ggml.tokens", {"a", "b"});
  EXPECT_EQ(why(w), "(parsed)");
}

TEST(GgufParse, OffsetsAreAlignedAndInsideTheFile) {
  const std::vector<std::byte> eight(8);
  GgufWriter w;
  w.add_raw_tensor("t", kF32, {2}, eight);
  EXPECT_EQ(why(w), "(parsed)");
  for (uint64_t offset : {uint64_t{32}, uint64_t{64}, ~uint64_t{31}}) {
    GgufWriter outside;
    outside.add_raw_tensor("fine", kF32, {2}, eight).add_entry("t", kF32, {2}, offset);
    EXPECT_THAT(why(outside),
                HasSubstr(fmt::format("at offset {} of the data, which has only 8", offset)));
  }
  GgufWriter crooked;
  crooked.add_raw_tensor("fine", kF32, {2}, eight).add_entry("t", kF32, {1}, 4);
  EXPECT_THAT(why(crooked), HasSubstr("offset 4, which is not a multiple of the alignment 32"));
}

TEST(GgufParse, OverlappingTensorsAreRefused) {
  const std::vector<std::byte> data(64);
  GgufWriter same, partly, touching;
  same.add_raw_tensor("a", kF32, {16}, data).add_entry("b", kF32, {16}, 0);
  EXPECT_THAT(why(same), HasSubstr("overlap at offset 0"));
  partly.add_raw_tensor("a", kF32, {16}, data).add_entry("b", kF32, {8}, 32);
  EXPECT_THAT(why(partly), HasSubstr("tensors 'a' and 'b' overlap at offset 32"));
  touching.add_raw_tensor("a", kF32, {8}, data).add_entry("b", kF32, {8}, 32);
  EXPECT_EQ(why(touching), "(parsed)");
}

// Nothing may crash, whatever one byte becomes. What is accepted must be readable to its last byte.
TEST(GgufParse, NoSingleByteChangeBreaksTheParser) {
  const std::vector<std::byte> whole = small_model().bytes();
  size_t refused = 0;
  for (size_t i = 0; i < whole.size(); ++i) {
    for (int flip : {0x01, 0x80, 0xff, 0x10}) {
      std::vector<std::byte> mutated = whole;
      mutated[i] ^= static_cast<std::byte>(flip);
      refused += parse_exact(mutated) ? 0 : 1;
    }
  }
  EXPECT_GT(refused, whole.size());  // most of the metadata matters
}

TEST(GgufParse, NoRandomDamageBreaksTheParser) {
  const uint64_t seed = test_seed();
  SCOPED_TRACE(testing::Message() << "PACER_TEST_SEED=" << seed);
  Rng rng(seed);
  const std::vector<std::byte> whole = small_model().bytes();
  size_t refused = 0;
  for (int round = 0; round < 20'000; ++round) {
    std::vector<std::byte> mutated = whole;
    for (uint64_t n = 1 + rng.below(6); n > 0; --n) {
      mutated[rng.below(mutated.size())] = static_cast<std::byte>(rng.next());
    }
    mutated.resize(mutated.size() - rng.below(16));
    refused += parse_exact(mutated) ? 0 : 1;
  }
  EXPECT_GT(refused, 10'000u);
}

}  // namespace
}  // namespace pacer::gguf
