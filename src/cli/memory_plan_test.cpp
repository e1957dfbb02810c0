#include "cli/memory_plan.h"

#include <gtest/gtest.h>

namespace pacer::cli {
namespace {

constexpr uint64_t kMiB = 1 << 20;
constexpr MemoryNeeds kNeeds = {
    .weights_bytes = 100 * kMiB, .scratch_bytes = 20 * kMiB, .bodies_bytes = 30 * kMiB};

MemoryLimit of(uint64_t bytes) {
  return {bytes, "the test"};
}

TEST(MemoryPlan, TheSmallerLimitCountsAndSaysItsName) {
  const sys::MemoryLimits machine = {
      .total_bytes = 9000, .available_bytes = 5000, .limited_by = "machine"};
  EXPECT_EQ(memory_limit(machine, std::nullopt).bytes, 5000u);
  EXPECT_EQ(memory_limit(machine, 6000).limited_by, "machine");
  EXPECT_EQ(memory_limit(machine, 5000).limited_by, "machine");
  EXPECT_EQ(memory_limit(machine, 4999).bytes, 4999u);
  EXPECT_EQ(memory_limit(machine, 4999).limited_by, "--max-memory");
}

TEST(MemoryPlan, WhatWasAskedIsTakenUpToTheLastByte) {
  EXPECT_EQ(*plan_kv_bytes(kNeeds, of(200 * kMiB), 50 * kMiB), 50 * kMiB);
  EXPECT_FALSE(plan_kv_bytes(kNeeds, of(200 * kMiB), 50 * kMiB + 1));
  EXPECT_FALSE(plan_kv_bytes(kNeeds, of(200 * kMiB), UINT64_MAX));
}

TEST(MemoryPlan, WithoutAWishItIsHalfOfTheRestAndAtMost2GiB) {
  EXPECT_EQ(*plan_kv_bytes(kNeeds, of(250 * kMiB), std::nullopt), 50 * kMiB);
  EXPECT_EQ(*plan_kv_bytes(kNeeds, of(uint64_t{1} << 40), std::nullopt), uint64_t{2} << 30);
  EXPECT_FALSE(plan_kv_bytes(kNeeds, of(150 * kMiB), std::nullopt));
  EXPECT_TRUE(plan_kv_bytes(kNeeds, of(150 * kMiB + 1), std::nullopt));
}

TEST(MemoryPlan, ARefusalNamesEachPartTheLimitAndTheFlags) {
  const auto refused = plan_kv_bytes(kNeeds, of(160 * kMiB), 64 * kMiB);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().message,
            "this does not fit into memory: 100.0 MiB of weights, 20.0 MiB for a step "
            "(--max-num-batched-tokens, --max-num-seqs), 30.0 MiB for requests "
            "(--max-body-memory), a KV cache of 64.0 MiB (--kv-cache-memory); 160.0 MiB are "
            "available (the test)");
}

TEST(MemoryPlan, ScratchGrowsWithTokensAndRows) {
  model::ModelConfig config;
  config.d_model = 64;
  config.d_ff = 256;
  config.heads = 4;
  config.kv_heads = 2;
  config.head_dim = 16;
  config.vocabulary = 1000;
  const auto of_step = [&](uint32_t tokens, uint32_t rows, uint32_t workers) {
    return scratch_bytes(config, {.tokens = tokens, .logit_rows = rows}, workers);
  };
  EXPECT_EQ(of_step(64, 65, 1) - of_step(64, 64, 1), 4000u);
  EXPECT_EQ(of_step(64, 1, 1), of_step(64, 32, 1));  // prompts are scored in 32 rows
  EXPECT_EQ(of_step(64, 1, 2) - of_step(64, 1, 1), 16'000u);
  // What a worker and a row hold does not grow with the tokens of a step.
  EXPECT_EQ(of_step(128, 64, 1) - of_step(64, 64, 1), of_step(64, 64, 1) - 64 * 4000u - 16'000u);
}

}  // namespace
}  // namespace pacer::cli
