// The contract of quantise_q8, the element-wise parts and the logits, for every tier: odd lengths,
// unaligned vectors, values outside untouched.

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/contract_fixture.h"

namespace pacer::kernels {
namespace {

constexpr float kPoison = -777.25f;
constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
constexpr uint32_t kLengths[] = {1, 2, 7, 8, 9, 15, 16, 31, 32, 33, 63, 65, 576, 1536, 1537};

class ElementwiseContract : public EveryTier {
 protected:
  const KernelTable& scalar_kernels() const { return *supported_kernels().back(); }
};
PACER_FOR_EVERY_TIER(ElementwiseContract);

// `n` random values that start at an address no vector load likes, with poison behind them.
struct Unaligned {
  std::vector<float> storage;
  uint32_t n;

  Unaligned(Rng& rng, uint32_t count, float limit = 1.0f) : storage(count + 2, kPoison), n(count) {
    for (uint32_t i = 0; i < n; ++i) storage[i + 1] = random_float(rng, limit);
  }
  float* data() { return storage.data() + 1; }
  const float* data() const { return storage.data() + 1; }
  void expect_edges_untouched() const {
    EXPECT_EQ(storage.front(), kPoison);
    EXPECT_EQ(storage.back(), kPoison);
  }
};

TEST_P(ElementwiseContract, QuantizeQ8EqualsTheScalarTierToTheBit) {
  Rng rng(31);
  for (float limit : {1.0f, 1e-3f, 1e4f, 1e30f, 1e-35f, 1e-38f, 1e-41f}) {
    SCOPED_TRACE(testing::Message() << "seed 31, limit " << limit);
    const std::vector<float> x = random_floats(rng, 64 * kQuantBlock, limit);
    const ActivationRows got(kernels(), 1, 64 * kQuantBlock, x);
    const ActivationRows expected(scalar_kernels(), 1, 64 * kQuantBlock, x);
    ASSERT_EQ(got.values, expected.values);
    ASSERT_EQ(got.scales, expected.scales);
    ASSERT_EQ(got.sums, expected.sums);
    ASSERT_EQ(got.half_sums, expected.half_sums);
  }
}

TEST_P(ElementwiseContract, QuantizeQ8RoundsTiesToEven) {
  std::vector<float> x(kQuantBlock, 0.0f);
  x[0] = -127.0f;  // so the scale is 1
  x[1] = 0.5f;
  x[2] = 1.5f;
  x[3] = -2.5f;
  x[4] = 126.5f;
  x[31] = 3.0f;
  const ActivationRows q(kernels(), 1, kQuantBlock, x);
  EXPECT_EQ(q.scales[0], 1.0f);
  EXPECT_EQ(q.values[0], -127);
  EXPECT_EQ(q.values[1], 0);
  EXPECT_EQ(q.values[2], 2);
  EXPECT_EQ(q.values[3], -2);
  EXPECT_EQ(q.values[4], 126);
  EXPECT_EQ(q.values[31], 3);
  EXPECT_EQ(q.sums[0], -127.0f + 2 - 2 + 126 + 3);
}

TEST_P(ElementwiseContract, QuantizeQ8GivesAnAllZeroBlockTheScaleZero) {
  std::vector<float> x(2 * kQuantBlock, 0.0f);
  x[kQuantBlock] = 1e-40f;  // a denormal is a zero
  const ActivationRows q(kernels(), 1, 2 * kQuantBlock, x);
  for (uint32_t b = 0; b < 2; ++b) {
    EXPECT_EQ(q.scales[b], 0.0f);
    EXPECT_EQ(q.sums[b], 0.0f);
  }
  EXPECT_EQ(std::count(q.values.begin(), q.values.end(), 0), 2 * kQuantBlock);
}

TEST_P(ElementwiseContract, RmsNormDividesByTheRootMeanSquare) {
  for (uint32_t n : kLengths) {
    SCOPED_TRACE(testing::Message() << "n and seed " << n);
    Rng rng(n);
    Unaligned x(rng, n, 10.0f);
    const Unaligned weight(rng, n);
    double squares = 0;
    for (uint32_t i = 0; i < n; ++i) squares += static_cast<double>(x.data()[i]) * x.data()[i];
    const double inverse = 1.0 / std::sqrt(squares / n + 1e-5);
    const std::vector<float> before(x.data(), x.data() + n);
    kernels().rms_norm(x.data(), weight.data(), 1e-5f, n, x.data());  // out may be x
    for (uint32_t i = 0; i < n; ++i) {
      const double expected = before[i] * inverse * weight.data()[i];
      // n roundings of the sum at most, halved by the root, and a few more.
      ASSERT_NEAR(x.data()[i], expected, (n / 2.0 + 8) * kRounding * std::fabs(expected));
    }
    x.expect_edges_untouched();
  }
}

TEST_P(ElementwiseContract, AddIsExact) {
  for (uint32_t n : kLengths) {
    Rng rng(n);
    const Unaligned x(rng, n);
    Unaligned y(rng, n);
    const std::vector<float> before(y.data(), y.data() + n);
    kernels().add(x.data(), y.data(), n, y.data());
    for (uint32_t i = 0; i < n; ++i) ASSERT_EQ(y.data()[i], x.data()[i] + before[i]) << "n " << n;
    y.expect_edges_untouched();
  }
}

TEST_P(ElementwiseContract, SiluMulIsAccurate) {
  for (uint32_t n : kLengths) {
    SCOPED_TRACE(testing::Message() << "n and seed " << n);
    Rng rng(n);
    const Unaligned gate(rng, n, 30.0f);
    const Unaligned up(rng, n);
    Unaligned out(rng, n);
    kernels().silu_mul(gate.data(), up.data(), n, out.data());
    for (uint32_t i = 0; i < n; ++i) {
      const double g = gate.data()[i];
      const double expected = g / (1 + std::exp(-g)) * up.data()[i];
      ASSERT_NEAR(out.data()[i], expected, 1e-6 * std::fabs(expected)) << "gate " << g;
    }
    out.expect_edges_untouched();
  }
}

TEST_P(ElementwiseContract, SiluMulOfExtremeGatesIsFinite) {
  const std::vector<float> gate = {0.0f,    -0.0f, 88.5f,  -88.5f, 200.0f,
                                   -200.0f, 1e30f, -1e30f, 1e-30f};
  const std::vector<float> up(gate.size(), 1.0f);
  std::vector<float> out(gate.size());
  kernels().silu_mul(gate.data(), up.data(), static_cast<uint32_t>(gate.size()), out.data());
  EXPECT_EQ(out[0], 0.0f);
  EXPECT_EQ(out[1], 0.0f);
  EXPECT_FLOAT_EQ(out[2], 88.5f);
  EXPECT_NEAR(out[3], 0.0f, 1e-30f);
  EXPECT_EQ(out[4], 200.0f);
  EXPECT_NEAR(out[5], 0.0f, 1e-30f);
  EXPECT_EQ(out[6], 1e30f);
  EXPECT_TRUE(std::isfinite(out[7]));
  EXPECT_FLOAT_EQ(out[8], 5e-31f);
}

TEST_P(ElementwiseContract, GeluMulIsAccurate) {
  for (uint32_t n : kLengths) {
    for (float limit : {0.01f, 3.0f, 12.0f}) {
      SCOPED_TRACE(testing::Message() << "n and seed " << n << ", gates up to " << limit);
      Rng rng(n);
      const Unaligned gate(rng, n, limit);
      const Unaligned up(rng, n);
      Unaligned out(rng, n);
      kernels().gelu_mul(gate.data(), up.data(), n, out.data());
      for (uint32_t i = 0; i < n; ++i) {
        const double g = gate.data()[i];
        const double inner = std::sqrt(2 / M_PI) * (g + 0.044715 * g * g * g);
        const double expected = 0.5 * g * (1 + std::tanh(inner)) * up.data()[i];
        // As the tanh form has it: 1 + tanh cancels below 0, so what is lost is relative to g.
        const double bound = 1e-6 * std::fabs(expected) + 3 * kRounding * std::fabs(g);
        ASSERT_NEAR(out.data()[i], expected, bound) << "gate " << g;
      }
      out.expect_edges_untouched();
    }
  }
}

TEST_P(ElementwiseContract, GeluMulOfExtremeGatesIsFinite) {
  const std::vector<float> gate = {0.0f,    -0.0f, 15.0f,  -15.0f, 200.0f,
                                   -200.0f, 1e30f, -1e30f, 1e-30f};
  const std::vector<float> up(gate.size(), 1.0f);
  std::vector<float> out(gate.size());
  kernels().gelu_mul(gate.data(), up.data(), static_cast<uint32_t>(gate.size()), out.data());
  EXPECT_EQ(out[0], 0.0f);
  EXPECT_EQ(out[1], 0.0f);
  EXPECT_EQ(out[2], 15.0f);
  EXPECT_NEAR(out[3], 0.0f, 1e-30f);
  EXPECT_EQ(out[4], 200.0f);
  EXPECT_NEAR(out[5], 0.0f, 1e-30f);
  EXPECT_EQ(out[6], 1e30f);
  EXPECT_TRUE(std::isfinite(out[7]));
  EXPECT_FLOAT_EQ(out[8], 5e-31f);
}

TEST_P(ElementwiseContract, SoftCapIsAccurateFromTinyToHuge) {
  for (uint32_t n : kLengths) {
    for (float cap : {1.0f, 30.0f, 50.0f}) {
      for (float limit : {1e-3f, 1.0f, 40.0f, 2000.0f, 1e30f}) {
        SCOPED_TRACE(testing::Message()
                     << "n and seed " << n << ", cap " << cap << ", up to " << limit);
        Rng rng(n);
        Unaligned x(rng, n, limit);
        const std::vector<float> before(x.data(), x.data() + n);
        kernels().soft_cap(x.data(), cap, n, x.data());  // out may be x
        for (uint32_t i = 0; i < n; ++i) {
          const double expected = cap * std::tanh(static_cast<double>(before[i]) / cap);
          ASSERT_NEAR(x.data()[i], expected, 5e-7 * std::fabs(expected)) << "of " << before[i];
          ASSERT_LE(std::fabs(x.data()[i]), cap);
        }
        x.expect_edges_untouched();
      }
    }
  }
}

TEST_P(ElementwiseContract, SoftCapKeepsSignsAndTakesInfinities) {
  std::vector<float> x = {kInfinity, -kInfinity, 0.0f, -0.0f, kNaN};
  kernels().soft_cap(x.data(), 30.0f, static_cast<uint32_t>(x.size()), x.data());
  EXPECT_EQ(x[0], 30.0f);
  EXPECT_EQ(x[1], -30.0f);
  EXPECT_EQ(x[2], 0.0f);
  EXPECT_TRUE(x[3] == 0.0f && std::signbit(x[3]));
  EXPECT_TRUE(std::isnan(x[4]));
}

TEST_P(ElementwiseContract, RopeEqualsTheScalarTierToTheBit) {
  for (RopePairing pairing : {RopePairing::kAdjacent, RopePairing::kHalves}) {
    for (uint32_t dims : {2u, 8u, 10u, 18u, 24u, 64u}) {
      SCOPED_TRACE(testing::Message() << "dims and seed " << dims);
      Rng rng(dims);
      const uint32_t head_dim = 64;
      Unaligned x(rng, 3 * head_dim);
      const std::vector<float> cos = random_floats(rng, dims / 2);
      const std::vector<float> sin = random_floats(rng, dims / 2);
      Unaligned expected = x;
      kernels().rope({x.data(), 3, head_dim, dims, pairing, cos.data(), sin.data()});
      scalar_kernels().rope({expected.data(), 3, head_dim, dims, pairing, cos.data(), sin.data()});
      ASSERT_EQ(x.storage, expected.storage);
    }
  }
}

TEST_P(ElementwiseContract, RopeTurnsThePairsItIsToldTo) {
  const std::vector<float> cos = {0.0f,
                                  1.0f};  // the first pair by 90 degrees, the second not at all
  const std::vector<float> sin = {1.0f, 0.0f};
  std::vector<float> x = {1, 2, 3, 4, 5, 6};
  kernels().rope({x.data(), 1, 6, 4, RopePairing::kAdjacent, cos.data(), sin.data()});
  EXPECT_EQ(x, (std::vector<float>{-2, 1, 3, 4, 5, 6}));
  x = {1, 2, 3, 4, 5, 6};
  kernels().rope({x.data(), 1, 6, 4, RopePairing::kHalves, cos.data(), sin.data()});
  EXPECT_EQ(x, (std::vector<float>{-3, 2, 1, 4, 5, 6}));
}

TEST_P(ElementwiseContract, ArgMaxIsTheLowestIndexAmongEquals) {
  for (uint32_t n : {1u, 7u, 8u, 9u, 31u, 32u, 100u, 49152u}) {
    Rng rng(n);
    for (uint32_t round = 0; round < 20; ++round) {
      Unaligned x(rng, n);
      const uint32_t at = static_cast<uint32_t>(rng.below(n));
      const uint32_t again = at + static_cast<uint32_t>(rng.below(n - at));
      x.data()[at] = x.data()[again] = 2.0f;
      ASSERT_EQ(kernels().arg_max(x.data(), n), at) << "n and seed " << n;
    }
  }
}

TEST_P(ElementwiseContract, ArgMaxNeverPicksNaNWhenThereIsANumber) {
  for (uint32_t n : {2u, 9u, 40u, 67u}) {
    for (uint32_t at = 0; at < n; ++at) {
      std::vector<float> x(n, kNaN);
      x[at] = -kInfinity;
      ASSERT_EQ(kernels().arg_max(x.data(), n), at);
      x[at] = -3.0f;
      ASSERT_EQ(kernels().arg_max(x.data(), n), at);
    }
    const std::vector<float> none(n, kNaN);
    EXPECT_EQ(kernels().arg_max(none.data(), n), 0u);
  }
}

TEST_P(ElementwiseContract, LogSumExpIsAccurate) {
  for (uint32_t n : {1u, 3u, 8u, 17u, 40u, 49152u}) {
    for (float around : {0.0f, -5000.0f, 80.0f, 3000.0f}) {
      SCOPED_TRACE(testing::Message() << "n and seed " << n << " around " << around);
      Rng rng(n);
      Unaligned x(rng, n, 20.0f);
      for (uint32_t i = 0; i < n; ++i) x.data()[i] += around;
      const double max = *std::max_element(x.data(), x.data() + n);
      double sum = 0;
      for (uint32_t i = 0; i < n; ++i) sum += std::exp(x.data()[i] - max);
      const double expected = max + std::log(sum);
      ASSERT_NEAR(kernels().log_sum_exp(x.data(), n), expected,
                  4e-6 + 2 * kRounding * std::fabs(expected));
    }
  }
}

TEST_P(ElementwiseContract, ExpWeightsAreOneForTheBestAndSumUp) {
  for (uint32_t n : {1u, 7u, 8u, 19u, 49152u}) {
    for (float scale : {1.0f, 0.1f, 50.0f}) {
      SCOPED_TRACE(testing::Message() << "n and seed " << n << " scale " << scale);
      Rng rng(n);
      Unaligned x(rng, n, 20.0f);
      Unaligned out(rng, n);
      x.data()[n / 2] = 21.0f;
      if (n > 1) x.data()[0] = -kInfinity;
      const double got = kernels().exp_weights(x.data(), n, 21.0f, scale, out.data());
      EXPECT_EQ(out.data()[n / 2], 1.0f);
      double sum = 0;
      for (uint32_t i = 0; i < n; ++i) {
        const double exponent = (x.data()[i] - 21.0f) * scale;
        // Two roundings of the exponent, then the exponential's own error; 0 where f32 has no
        // normal number.
        const double bound = std::exp(exponent) * (3 * kRounding * std::fabs(exponent) + 1e-6);
        ASSERT_NEAR(out.data()[i], std::exp(exponent), (exponent < -87 ? 1e-37 : bound));
        sum += out.data()[i];
      }
      if (n > 1) {
        EXPECT_EQ(out.data()[0], 0.0f);
      }
      EXPECT_NEAR(got, sum, 1e-12 * sum);
      out.expect_edges_untouched();
    }
  }
}

TEST_P(ElementwiseContract, LogSumExpOfInfinities) {
  std::vector<float> x(20, -kInfinity);
  EXPECT_EQ(kernels().log_sum_exp(x.data(), 20), -kInfinity);
  x[13] = 1.5f;
  EXPECT_EQ(kernels().log_sum_exp(x.data(), 20), 1.5f);
  x[2] = kInfinity;
  EXPECT_EQ(kernels().log_sum_exp(x.data(), 20), kInfinity);
}

}  // namespace
}  // namespace pacer::kernels
