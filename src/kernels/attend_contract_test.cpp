// The contract of attention, for every tier: against a softmax in double over a shuffled block
// table, with NaN in every slot that holds no token.

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/contract_fixture.h"

namespace pacer::kernels {
namespace {

constexpr uint16_t kF16NaN = 0x7e00;
constexpr float kPoison = -54321.5f;

struct AttendShape {
  uint32_t head_dim;
  uint32_t group;
  uint32_t tokens;
  uint32_t first_position;
  uint32_t window = 0;
  float soft_cap = 0;
};

// One sequence: query rows, and its keys and values in a paged cache of one layer with two kv
// heads, of which the second is used.
class Sequence {
 public:
  static constexpr uint32_t kKvHeads = 2;
  static constexpr uint32_t kKvHead = 1;

  Sequence(const KernelTable& kernels, AttendShape shape, uint64_t seed, float limit = 1.0f)
      : kernels_(kernels), shape_(shape), positions_(shape.first_position + shape.tokens) {
    Rng rng(seed);
    q_ = random_floats(rng, static_cast<size_t>(shape.tokens) * q_stride(), limit);
    shuffle_blocks(rng);
    store_tokens(rng, limit);
  }

  uint32_t q_stride() const { return shape_.group * shape_.head_dim + 5; }
  uint32_t out_stride() const { return shape_.group * shape_.head_dim + 3; }

  // Query tokens [first, first + count), as a call of their own. Floats outside the rows stay
  // poison.
  std::vector<float> attend(uint32_t first, uint32_t count) const {
    const size_t scratch_floats =
        kernels_.attend_scratch_floats(count, shape_.group, shape_.head_dim);
    AlignedBuffer<float> scratch(scratch_floats + 16, 0xff);  // 0xffffffff is a NaN
    std::vector<float> out(static_cast<size_t>(count) * out_stride(), kPoison);
    AttendArgs args{};
    args.q = &q_[static_cast<size_t>(first) * q_stride()];
    args.q_stride = q_stride();
    args.out = out.data();
    args.out_stride = out_stride();
    args.tokens = count;
    args.group = shape_.group;
    args.head_dim = shape_.head_dim;
    args.first_position = shape_.first_position + first;
    args.scale = scale();
    args.window = shape_.window;
    args.soft_cap = shape_.soft_cap;
    args.kv = cache_.data() + kKvHead * head_values();
    args.block_stride = block_values();
    args.block_table = table_.data();
    args.scratch = scratch.get();
    kernels_.attend(args);
    for (size_t i = 0; i < 16; ++i) {
      uint32_t bits;
      std::memcpy(&bits, scratch.get() + scratch_floats + i, 4);
      EXPECT_EQ(bits, 0xffffffffu) << "scratch float " << i << " past its end was written";
    }
    return out;
  }

  // Softmax attention in double, straight from its definition; `bound` is what f32 may add to the
  // error.
  std::vector<double> expected(uint32_t token, uint32_t head, double* bound) const {
    const uint32_t end = shape_.first_position + token + 1;
    const uint32_t begin = window_begin(token);
    const float* q = &q_[static_cast<size_t>(token) * q_stride() + head * shape_.head_dim];
    std::vector<double> score;
    double norm = 0;  // greatest sum of absolute products of a score
    for (uint32_t p = begin; p < end; ++p) {
      double absolute = 0;
      score.push_back(0);
      for (uint32_t d = 0; d < shape_.head_dim; ++d) {
        score.back() += static_cast<double>(q[d]) * key(p, d) * scale();
        absolute += std::fabs(static_cast<double>(q[d]) * key(p, d) * scale());
      }
      norm = std::max(norm, absolute);
      const double cap = shape_.soft_cap;
      if (cap > 0) score.back() = cap * std::tanh(score.back() / cap);
    }
    const double max = *std::max_element(score.begin(), score.end());
    double sum = 0;
    for (double& s : score) sum += s = std::exp(s - max);
    std::vector<double> out(shape_.head_dim);
    double value_max = 0;
    for (uint32_t d = 0; d < shape_.head_dim; ++d) {
      for (uint32_t p = begin; p < end; ++p) {
        out[d] += score[p - begin] / sum * value(p, d);
        value_max = std::max(value_max, std::fabs(value(p, d)));
      }
    }
    // An error e of a score is a relative error e of its weight, twice: above and below the
    // fraction line. The exponential and the chains over positions add relative errors of their
    // own. A cap makes no error greater (its slope is at most 1), but tanh adds its own.
    const double cap_error = 8 * kRounding * std::min<double>(shape_.soft_cap, norm);
    const double score_error = (shape_.head_dim + 8) * kRounding * norm + cap_error + 2e-6;
    *bound = (2 * score_error + (2.0 * (end - begin) + 16) * kRounding) * value_max;
    return out;
  }

  // The first position that query token `token` attends to.
  uint32_t window_begin(uint32_t token) const {
    const uint32_t position = shape_.first_position + token;
    if (shape_.window == 0 || position < shape_.window) return 0;
    return position - shape_.window + 1;
  }

  // Overwrites the positions [first, end) with NaN.
  void forget(uint32_t first, uint32_t end) {
    for (uint32_t p = first; p < end; ++p) {
      for (uint32_t d = 0; d < shape_.head_dim; ++d) {
        cache_[key_index(p, d)] = kF16NaN;
        cache_[value_index(p, d)] = kF16NaN;
      }
    }
  }
  void forget_from(uint32_t first) { forget(first, positions_); }

  // From now on the blocks before `block` are elsewhere: reading one faults.
  void give_away_blocks_before(uint32_t block) {
    for (uint32_t b = 0; b < block; ++b) table_[b] = 0x7fffffff;
  }

  const AttendShape& shape() const { return shape_; }

 private:
  float scale() const { return 1.0f / std::sqrt(static_cast<float>(shape_.head_dim)); }
  size_t head_values() const { return 2ull * kKvBlockTokens * shape_.head_dim; }
  size_t block_values() const { return kKvHeads * head_values() + 24; }

  size_t head_at(uint32_t position) const {
    return table_[position / kKvBlockTokens] * block_values() + kKvHead * head_values();
  }
  size_t key_index(uint32_t position, uint32_t d) const {
    return head_at(position) + d * kKvBlockTokens + position % kKvBlockTokens;
  }
  size_t value_index(uint32_t position, uint32_t d) const {
    return head_at(position) + (kKvBlockTokens + position % kKvBlockTokens) * shape_.head_dim + d;
  }
  double key(uint32_t position, uint32_t d) const {
    return tensor::f16_to_f32(cache_[key_index(position, d)]);
  }
  double value(uint32_t position, uint32_t d) const {
    return tensor::f16_to_f32(cache_[value_index(position, d)]);
  }

  void shuffle_blocks(Rng& rng) {
    const uint32_t used = div_ceil(positions_, kKvBlockTokens);
    const uint32_t total = used + 3;
    std::vector<uint32_t> ids(total);
    for (uint32_t i = 0; i < total; ++i) ids[i] = i;
    for (uint32_t i = total - 1; i > 0; --i) std::swap(ids[i], ids[rng.below(i + 1)]);
    table_.assign(ids.begin(), ids.begin() + used);
    cache_.assign(total * block_values(), kF16NaN);
  }

  void store_tokens(Rng& rng, float limit) {
    for (uint32_t p = 0; p < positions_; ++p) {
      const auto k = random_floats(rng, kKvHeads * shape_.head_dim, limit);
      const auto v = random_floats(rng, kKvHeads * shape_.head_dim, limit);
      uint16_t* block = &cache_[table_[p / kKvBlockTokens] * block_values()];
      kernels_.store_kv({k.data(), v.data(), kKvHeads, shape_.head_dim, block, p % kKvBlockTokens});
    }
  }

  const KernelTable& kernels_;
  AttendShape shape_;
  uint32_t positions_;
  std::vector<float> q_;
  std::vector<uint32_t> table_;
  std::vector<uint16_t> cache_;
};

constexpr AttendShape kShapes[] = {
    // head_dim, group, tokens, first position
    {8, 1, 1, 0},     {64, 3, 1, 0},     {64, 3, 1, 15},  {64, 3, 1, 16},  {64, 3, 1, 63},
    {64, 3, 1, 64},   {64, 3, 1, 200},   {64, 1, 1, 127}, {64, 4, 1, 100}, {64, 7, 1, 90},
    {24, 2, 1, 33},   {128, 4, 1, 70},   {256, 8, 1, 50}, {64, 3, 2, 0},   {64, 3, 2, 63},
    {64, 3, 16, 0},   {64, 3, 17, 0},    {64, 3, 70, 0},  {64, 3, 33, 50}, {40, 5, 20, 14},
    {128, 4, 33, 31}, {256, 1, 20, 100}, {64, 50, 2, 20}, {8, 2, 65, 1},   {96, 6, 5, 120}};

class AttendContract : public EveryTier {};
PACER_FOR_EVERY_TIER(AttendContract);

void expect_exact_attention(const Sequence& sequence, const std::vector<float>& out) {
  const AttendShape& shape = sequence.shape();
  for (uint32_t t = 0; t < shape.tokens; ++t) {
    const float* row = &out[static_cast<size_t>(t) * sequence.out_stride()];
    for (uint32_t h = 0; h < shape.group; ++h) {
      double bound = 0;
      const std::vector<double> expected = sequence.expected(t, h, &bound);
      for (uint32_t d = 0; d < shape.head_dim; ++d) {
        ASSERT_NEAR(row[h * shape.head_dim + d], expected[d], bound)
            << "token " << t << " head " << h << " dimension " << d;
      }
    }
    for (uint32_t i = shape.group * shape.head_dim; i < sequence.out_stride(); ++i) {
      ASSERT_EQ(row[i], kPoison) << "written past the heads of token " << t;
    }
  }
}

TEST_P(AttendContract, MatchesSoftmaxInDouble) {
  uint64_t seed = 1;
  for (const AttendShape& shape : kShapes) {
    SCOPED_TRACE(testing::Message()
                 << "head_dim " << shape.head_dim << " group " << shape.group << " tokens "
                 << shape.tokens << " from " << shape.first_position << ", seed " << seed);
    const Sequence sequence(kernels(), shape, seed++);
    expect_exact_attention(sequence, sequence.attend(0, shape.tokens));
  }
}

// Scores of some +-60: nearly all weight on one position, most others vanish.
TEST_P(AttendContract, MatchesSoftmaxInDoubleWhenItIsSharp) {
  const AttendShape shape{64, 3, 9, 130};
  const Sequence sequence(kernels(), shape, 77, 6.0f);
  expect_exact_attention(sequence, sequence.attend(0, shape.tokens));
}

// Chunked prefill and decode must agree to the bit.
TEST_P(AttendContract, ATokensResultDoesNotDependOnTheChunk) {
  for (const AttendShape& shape : {AttendShape{64, 3, 70, 0}, AttendShape{64, 3, 40, 37},
                                   AttendShape{128, 4, 21, 60}, AttendShape{24, 1, 50, 10}}) {
    const Sequence sequence(kernels(), shape, 5);
    const std::vector<float> whole = sequence.attend(0, shape.tokens);
    for (uint32_t chunk : {1u, 2u, 5u, 16u, 19u}) {
      SCOPED_TRACE(testing::Message() << "head_dim " << shape.head_dim << " chunk " << chunk);
      for (uint32_t t = 0; t < shape.tokens; t += chunk) {
        const uint32_t count = std::min(chunk, shape.tokens - t);
        const std::vector<float> part = sequence.attend(t, count);
        ASSERT_EQ(std::memcmp(part.data(), &whole[t * sequence.out_stride()],
                              part.size() * sizeof(float)),
                  0)
            << "tokens from " << t;
      }
    }
  }
}

AttendShape with_window(AttendShape shape, uint32_t window, float soft_cap = 0) {
  shape.window = window;
  shape.soft_cap = soft_cap;
  return shape;
}

constexpr uint32_t kWindows[] = {1, 15, 16, 17, 40, 1000};

TEST_P(AttendContract, AWindowLimitsHowFarATokenLooksBack) {
  uint64_t seed = 100;
  for (uint32_t window : kWindows) {
    for (const AttendShape& shape : kShapes) {
      SCOPED_TRACE(testing::Message() << "window " << window << " head_dim " << shape.head_dim
                                      << " group " << shape.group << " tokens " << shape.tokens
                                      << " from " << shape.first_position << ", seed " << seed);
      const Sequence sequence(kernels(), with_window(shape, window), seed++);
      expect_exact_attention(sequence, sequence.attend(0, shape.tokens));
    }
  }
}

TEST_P(AttendContract, AWindowOfTheWholeContextIsNoWindow) {
  const AttendShape shape{64, 3, 40, 37};
  const Sequence without(kernels(), shape, 6);
  for (uint32_t window : {77u, 78u, 0xffffffffu}) {
    const Sequence with(kernels(), with_window(shape, window), 6);
    ASSERT_EQ(with.attend(0, 40), without.attend(0, 40)) << "window " << window;
  }
}

// The chunk decides where the walk over blocks begins; the token's own window decides what counts.
TEST_P(AttendContract, ATokensResultDoesNotDependOnTheChunkWithAWindow) {
  for (const AttendShape& base : {AttendShape{64, 3, 90, 0}, AttendShape{64, 1, 150, 37},
                                  AttendShape{128, 4, 41, 60}, AttendShape{24, 2, 130, 200}}) {
    for (uint32_t window : kWindows) {
      const AttendShape shape = with_window(base, window, window % 2 == 0 ? 20.0f : 0.0f);
      const Sequence sequence(kernels(), shape, 5);
      const std::vector<float> whole = sequence.attend(0, shape.tokens);
      for (uint32_t chunk : {1u, 2u, 7u, 16u, 51u}) {
        SCOPED_TRACE(testing::Message() << "head_dim " << shape.head_dim << " window " << window
                                        << " chunk " << chunk);
        for (uint32_t t = 0; t < shape.tokens; t += chunk) {
          const uint32_t count = std::min(chunk, shape.tokens - t);
          const std::vector<float> part = sequence.attend(t, count);
          ASSERT_EQ(std::memcmp(part.data(), &whole[t * sequence.out_stride()],
                                part.size() * sizeof(float)),
                    0)
              << "tokens from " << t;
        }
      }
    }
  }
}

// Blocks before every window may belong to somebody else by now, and what is left of the first
// block is never used.
TEST_P(AttendContract, NothingBeforeTheWindowsIsRead) {
  for (uint32_t window : kWindows) {
    for (const AttendShape& base :
         {AttendShape{64, 3, 1, 200}, AttendShape{64, 3, 5, 130}, AttendShape{64, 3, 70, 95}}) {
      SCOPED_TRACE(testing::Message() << "window " << window << " tokens " << base.tokens);
      Sequence sequence(kernels(), with_window(base, window), 19);
      const std::vector<float> before = sequence.attend(0, base.tokens);
      const uint32_t begin = sequence.window_begin(0);
      sequence.forget(0, begin);
      sequence.give_away_blocks_before(begin / kKvBlockTokens);
      ASSERT_EQ(sequence.attend(0, base.tokens), before);
    }
  }
}

// A NaN within the window of the first token, not of the last.
TEST_P(AttendContract, ATokenSeesNothingBeforeItsOwnWindow) {
  for (uint32_t window : {1u, 15u, 16u, 17u, 40u}) {
    const AttendShape shape = with_window({64, 3, 80, 50}, window);
    Sequence sequence(kernels(), shape, 23);
    const std::vector<float> before = sequence.attend(0, shape.tokens);
    for (uint32_t t : {1u, 3u, 30u, 79u}) {
      sequence.forget(0, sequence.window_begin(t));
      const std::vector<float> after = sequence.attend(0, shape.tokens);
      for (size_t i = t * sequence.out_stride(); i < after.size(); ++i) {
        ASSERT_EQ(after[i], before[i]) << "window " << window << ", from token " << t;
      }
    }
  }
}

TEST_P(AttendContract, ASoftCapBendsTheScores) {
  uint64_t seed = 300;
  for (float cap : {0.5f, 5.0f, 50.0f}) {
    for (const AttendShape& shape : kShapes) {
      SCOPED_TRACE(testing::Message() << "cap " << cap << " head_dim " << shape.head_dim
                                      << " group " << shape.group << " tokens " << shape.tokens
                                      << " from " << shape.first_position << ", seed " << seed);
      const Sequence sequence(kernels(), with_window(shape, 0, cap), seed++, 4.0f);
      expect_exact_attention(sequence, sequence.attend(0, shape.tokens));
    }
  }
}

// Not even a NaN of a later token, stored by the same chunk, leaks into an earlier one.
TEST_P(AttendContract, ATokenSeesNothingAfterItsPosition) {
  const AttendShape shape{64, 3, 30, 20};
  Sequence sequence(kernels(), shape, 9);
  const std::vector<float> before = sequence.attend(0, shape.tokens);
  for (uint32_t t : {29u, 12u, 11u, 1u, 0u}) {
    sequence.forget_from(shape.first_position + t + 1);
    const std::vector<float> after = sequence.attend(0, shape.tokens);
    const size_t count = (t + 1) * sequence.out_stride();
    ASSERT_EQ(std::memcmp(after.data(), before.data(), count * sizeof(float)), 0) << "token " << t;
  }
}

// The wide tiers round alike, so that a machine's vectors do not decide what a model says.
TEST(AttendOfWideTiers, IsTheSameToTheBit) {
  const std::span<const KernelTable* const> tiers = supported_kernels();
  if (tiers.size() < 3) GTEST_SKIP() << "needs two wide tiers beside the scalar one";
  uint64_t seed = 500;
  for (const AttendShape& shape : kShapes) {
    for (const AttendShape& with : {shape, with_window(shape, 33), with_window(shape, 0, 8.0f)}) {
      SCOPED_TRACE(testing::Message()
                   << "head_dim " << with.head_dim << " group " << with.group << " tokens "
                   << with.tokens << " from " << with.first_position << ", seed " << seed);
      const Sequence first(*tiers.front(), with, seed);
      const std::vector<float> expected = first.attend(0, with.tokens);
      for (const KernelTable* tier : tiers) {
        if (tier->tier == IsaTier::kScalar) continue;  // the specification: std::exp, plain sums
        const Sequence sequence(*tier, with, seed);
        ASSERT_EQ(sequence.attend(0, with.tokens), expected) << tier->name;
      }
      ++seed;
    }
  }
}

TEST_P(AttendContract, StoreKvWritesItsSlotAloneAndRoundsToNearest) {
  const uint32_t head_dim = 24;
  const uint32_t kv_heads = 2;
  const size_t values = 2ull * kKvBlockTokens * head_dim * kv_heads;
  Rng rng(13);
  std::vector<float> k = random_floats(rng, kv_heads * head_dim, 3.0f);
  std::vector<float> v = random_floats(rng, kv_heads * head_dim, 3.0f);
  k[1] = 1.0f + 0x1p-11f;      // half-way between two f16: to the even one
  v[2] = 1.0f + 3 * 0x1p-11f;  // half-way: up, to the even one
  v[3] = 1e-6f;                // an f16 denormal
  for (uint32_t slot : {0u, 7u, 15u}) {
    std::vector<uint16_t> block(values, kF16NaN);
    kernels().store_kv({k.data(), v.data(), kv_heads, head_dim, block.data(), slot});
    size_t written = 0;
    for (uint16_t bits : block) written += bits != kF16NaN;
    EXPECT_EQ(written, 2ull * kv_heads * head_dim);
    for (uint32_t h = 0; h < kv_heads; ++h) {
      const uint16_t* head = &block[h * 2 * kKvBlockTokens * head_dim];
      const uint16_t* v_head = head + kKvBlockTokens * head_dim;
      for (uint32_t d = 0; d < head_dim; ++d) {
        const size_t i = h * head_dim + d;
        ASSERT_EQ(head[d * kKvBlockTokens + slot], tensor::f32_to_f16(k[i]));
        ASSERT_EQ(v_head[slot * head_dim + d], tensor::f32_to_f16(v[i]));
      }
    }
  }
}

}  // namespace
}  // namespace pacer::kernels
