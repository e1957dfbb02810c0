// Which tier runs, and what is said when it cannot.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "kernels/kernel_table.h"
#include "kernels/scalar/gguf_rows.h"

namespace pacer::kernels {
namespace {

using testing::HasSubstr;

// PACER_ISA as given for the length of a test, then as it was.
class Dispatch : public testing::Test {
 protected:
  void SetUp() override {
    if (const char* value = std::getenv("PACER_ISA")) before_ = value;
    unsetenv("PACER_ISA");
  }
  void TearDown() override {
    if (before_.empty()) {
      unsetenv("PACER_ISA");
    } else {
      setenv("PACER_ISA", before_.c_str(), 1);
    }
  }

 private:
  std::string before_;
};

TEST_F(Dispatch, ScalarIsAlwaysSupportedAndComesLast) {
  ASSERT_FALSE(supported_kernels().empty());
  EXPECT_EQ(supported_kernels().back()->tier, IsaTier::kScalar);
  EXPECT_STREQ(supported_kernels().back()->name, "scalar");
}

TEST_F(Dispatch, TheBestSupportedTierIsTheDefault) {
  const auto chosen = choose_kernels();
  ASSERT_TRUE(chosen.ok());
  EXPECT_EQ(*chosen, supported_kernels().front());
}

TEST_F(Dispatch, AForcedTierIsTheOneThatRuns) {
  for (const KernelTable* table : supported_kernels()) {
    setenv("PACER_ISA", table->name, 1);
    const auto chosen = choose_kernels();
    ASSERT_TRUE(chosen.ok()) << table->name;
    EXPECT_EQ(*chosen, table);
  }
}

TEST_F(Dispatch, AnUnknownTierIsRefusedWithTheNamesThatWork) {
  for (const char* name : {"fastest", "AVX2", "avx", " scalar"}) {
    setenv("PACER_ISA", name, 1);
    const auto chosen = choose_kernels();
    ASSERT_FALSE(chosen.ok()) << name;
    EXPECT_EQ(chosen.error().code, Code::kInvalidArgument);
    EXPECT_THAT(chosen.error().message, HasSubstr(name));
    EXPECT_THAT(chosen.error().message, HasSubstr("scalar"));
  }
}

TEST_F(Dispatch, AnEmptyNameIsNoName) {
  setenv("PACER_ISA", "", 1);
  const auto chosen = choose_kernels();
  ASSERT_TRUE(chosen.ok());
  EXPECT_EQ(*chosen, supported_kernels().front());
}

// A machine of the given tiers, best first.
struct Machine {
  std::vector<KernelTable> tables;
  std::vector<const KernelTable*> supported;

  explicit Machine(std::vector<const char*> names) {
    for (const char* name : names) {
      tables.push_back(*supported_kernels().back());
      tables.back().name = name;
    }
    for (const KernelTable& table : tables) supported.push_back(&table);
  }
};

TEST_F(Dispatch, Avx512WithoutVnniIsTheAvx512OfACpuThatHasNoVnni) {
  const Machine machine({"avx512-novnni", "avx2", "scalar"});
  const auto chosen = choose_kernels("avx512", machine.supported);
  ASSERT_TRUE(chosen.ok());
  EXPECT_EQ(*chosen, machine.supported[0]);

  const Machine better({"avx512", "avx512-novnni", "avx2", "scalar"});
  EXPECT_EQ(*choose_kernels("avx512", better.supported), better.supported[0]);
  EXPECT_EQ(*choose_kernels("avx512-novnni", better.supported), better.supported[1]);
}

TEST_F(Dispatch, ATierThatTheMachineLacksIsRefusedWithThoseItHas) {
  const Machine machine({"avx2", "scalar"});
  for (const char* name : {"avx512", "avx512-novnni"}) {
    const auto chosen = choose_kernels(name, machine.supported);
    ASSERT_FALSE(chosen.ok()) << name;
    EXPECT_EQ(chosen.error().code, Code::kUnsupported);
    EXPECT_THAT(chosen.error().message, HasSubstr("supports avx2, scalar"));
  }
  EXPECT_EQ(*choose_kernels("", machine.supported), machine.supported[0]);
  EXPECT_EQ(*choose_kernels(nullptr, machine.supported), machine.supported[0]);
}

TEST_F(Dispatch, EveryEntryOfEveryTableIsFilled) {
  for (const KernelTable* k : supported_kernels()) {
    EXPECT_TRUE(k->packed_bytes && k->pack && k->unpack_row && k->quantize_q8 && k->gemm)
        << k->name;
    EXPECT_TRUE(k->rms_norm && k->add && k->silu_mul && k->gelu_mul && k->soft_cap && k->rope)
        << k->name;
    EXPECT_TRUE(k->store_kv && k->attend_scratch_floats && k->attend) << k->name;
    EXPECT_TRUE(k->arg_max && k->log_sum_exp && k->exp_weights) << k->name;
  }
}

TEST(WeightFormatOf, EveryTypeWeComputeWithAndNoOther) {
  uint32_t known = 0;
  for (uint32_t type = 0; type < 64; ++type) {
    const auto dtype = static_cast<tensor::DType>(type);
    const auto format = weight_format(dtype);
    ASSERT_EQ(format.ok(), tensor::dtype_info(dtype).has_value()) << type;
    if (!format) continue;
    ++known;
    EXPECT_EQ(scalar::dtype_of(*format), dtype);
  }
  EXPECT_EQ(known, kWeightFormatCount);
}

TEST(WeightFormatOf, ARefusalNamesTheTypeAndThoseThatAreSupported) {
  const auto refused = weight_format(static_cast<tensor::DType>(39));
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, Code::kUnsupported);
  EXPECT_THAT(refused.error().message, HasSubstr("MXFP4"));
  for (uint32_t i = 0; i < kWeightFormatCount; ++i) {
    const auto dtype = scalar::dtype_of(static_cast<WeightFormat>(i));
    EXPECT_THAT(refused.error().message, HasSubstr(std::string(tensor::dtype_info(dtype)->name)));
  }
}

}  // namespace
}  // namespace pacer::kernels
