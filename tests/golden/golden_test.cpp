// Right answers: real models against reference outputs, on every kernel tier that this machine has.
//
// The reference is transformers on the same GGUF, dequantised to f32 (tests/golden/README.md).
// Log-probabilities are compared under teacher forcing, so that one early difference does not hide
// all later ones.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/test_models.h"
#include "kernels/kernel_table.h"
#include "model/evaluation.h"
#include "model/test_model.h"
#include "sys/cpu_features.h"
#include "text/chat_template.h"
#include "text/tokenizer.h"

namespace pacer {
namespace {

using nlohmann::json;

struct GoldenModel {
  const char* file;
  const char* golden;
  int chats;  // prompts that go through the chat template
};
constexpr GoldenModel kModels[] = {
    {kSmolLm2, "smollm2-135m-instruct-q4_1", 5},
    {kGemma3, "gemma-3-270m-q4_k_m", 0},
};

std::string read_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  EXPECT_TRUE(in.good()) << path;
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

struct Tolerance {
  double logprob_each;  // every difference
  double logprob_mean;  // their mean
  double logprob_95;    // 95 % of them
  double greedy_gap;    // where the golden's first and second are closer, another token is no error
};

Tolerance tolerance_of(kernels::IsaTier tier) {
  if (tier == kernels::IsaTier::kScalar) {
    return {.logprob_each = 0.02, .logprob_mean = 0.02, .logprob_95 = 0.02, .greedy_gap = 0.01};
  }
  return {.logprob_each = HUGE_VAL, .logprob_mean = 0.10, .logprob_95 = 0.30, .greedy_gap = 0.3};
}

std::vector<double> log_softmax(std::span<const float> logits) {
  double best = -HUGE_VAL, sum = 0;
  for (const float x : logits) best = std::max(best, double{x});
  for (const float x : logits) sum += std::exp(x - best);
  std::vector<double> result;
  for (const float x : logits) result.push_back(x - best - std::log(sum));
  return result;
}

// A model's file, tokenizer and golden, read once for all of its tests.
struct Opened {
  json golden;
  gguf::File file;
  std::unique_ptr<text::Tokenizer> tokenizer;
};

const Opened& opened(const GoldenModel& model) {
  static std::map<std::string, Opened> all;
  const auto found = all.find(model.file);
  if (found != all.end()) return found->second;
  auto file = gguf::File::open(test_model_path(model.file));
  CHECK(file.ok(), "{}", file.error().message);
  auto tokenizer = text::Tokenizer::from_gguf(*file);
  CHECK(tokenizer.ok(), "{}", tokenizer.error().message);
  json golden = json::parse(
      read_file(std::string(PACER_SOURCE_DIR "/tests/golden/") + model.golden + ".json"));
  return all.emplace(model.file, Opened{std::move(golden), *std::move(file), *std::move(tokenizer)})
      .first->second;
}

class GoldenTest : public ::testing::TestWithParam<GoldenModel> {
 protected:
  void SetUp() override {
    PACER_NEED_MODEL(GetParam().file);
    sys::cpu_features();
    sys::set_denormals_to_zero();
    opened_ = &opened(GetParam());
  }
  const json& golden() const { return opened_->golden; }
  const gguf::File& file() const { return opened_->file; }
  const text::Tokenizer& tokenizer() const { return *opened_->tokenizer; }

 private:
  const Opened* opened_ = nullptr;
};

INSTANTIATE_TEST_SUITE_P(Models, GoldenTest, ::testing::ValuesIn(kModels), [](const auto& model) {
  return std::string(model.param.golden, std::string_view(model.param.golden).find('-'));
});

// Every tier but one: avx512-novnni computes what avx512 does to the bit (kernels_test), so it has
// its turn only where it is the best.
std::vector<const kernels::KernelTable*> tiers() {
  std::vector<const kernels::KernelTable*> result;
  for (const kernels::KernelTable* table : kernels::supported_kernels()) {
    const bool is_best = table == kernels::supported_kernels().front();
    if (is_best || std::string_view(table->name) != "avx512-novnni") result.push_back(table);
  }
  return result;
}

// Rows of one pass: the longest prompt of a golden with its answer fits.
constexpr model::BatchLimits kLimits = {.tokens = 512, .logit_rows = 512};

std::vector<TokenId> with_answer(const json& prompt) {
  std::vector<TokenId> tokens = prompt["prompt_ids"];
  for (const json& step : prompt["greedy"]) tokens.push_back(step["id"]);
  return tokens;
}

TEST_P(GoldenTest, PromptsHaveTheReferenceTokenIds) {
  auto chat_template = text::ChatTemplate::from_gguf(file(), tokenizer());
  ASSERT_TRUE(chat_template.ok()) << chat_template.error().message;
  int chats = 0;
  for (const json& prompt : golden()["prompts"]) {
    SCOPED_TRACE(prompt["name"].get<std::string>());
    const std::vector<TokenId> expected = prompt["prompt_ids"];
    if (prompt["kind"] == "completion") {
      EXPECT_EQ(tokenizer().encode(prompt["text"].get<std::string>()), expected);
      continue;
    }
    const auto chat =
        (*chat_template)
            ->render(
                json{{"messages", prompt["messages"]}, {"add_generation_prompt", true}}.dump());
    ASSERT_TRUE(chat.ok()) << chat.error().message;
    EXPECT_EQ(chat->plain_text(), prompt["rendered"].get<std::string>());
    EXPECT_EQ(text::encode_chat(tokenizer(), *chat), expected);
    ++chats;
  }
  EXPECT_EQ(chats, GetParam().chats);
}

TEST_P(GoldenTest, LogProbabilitiesAndGreedyChoicesMatchTheReferenceOnEveryTier) {
  for (const kernels::KernelTable* kernels : tiers()) {
    SCOPED_TRACE(kernels->name);
    const Tolerance tolerance = tolerance_of(kernels->tier);
    model::TestModel runner(file(), *kernels, kLimits, sys::cpu_limits().threads);
    std::vector<double> differences;
    for (const json& prompt : golden()["prompts"]) {
      SCOPED_TRACE(prompt["name"].get<std::string>());
      const std::vector<TokenId> tokens = with_answer(prompt);
      const auto prompt_length = static_cast<uint32_t>(prompt["prompt_ids"].size());
      const std::vector<float> logits =
          runner.forward(tokens, 0, static_cast<uint32_t>(tokens.size()) - 1);

      for (uint32_t step = 0; step < prompt["greedy"].size(); ++step) {
        const size_t row = prompt_length - 1 + step;
        const std::vector<double> ours =
            log_softmax({logits.data() + row * runner.vocabulary(), runner.vocabulary()});
        const json& top = prompt["greedy"][step]["top"];
        for (const json& entry : top) {
          const double difference = std::abs(ours[entry[0].get<size_t>()] - entry[1].get<double>());
          EXPECT_LE(difference, tolerance.logprob_each) << "step " << step << " token " << entry[0];
          differences.push_back(difference);
        }
        const auto best =
            static_cast<TokenId>(std::max_element(ours.begin(), ours.end()) - ours.begin());
        const double gap = top[0][1].get<double>() - top[1][1].get<double>();
        if (gap >= tolerance.greedy_gap) {
          EXPECT_EQ(best, prompt["greedy"][step]["id"].get<TokenId>())
              << "step " << step << ", golden gap " << gap;
        }
      }
    }
    std::sort(differences.begin(), differences.end());
    double mean = 0;
    for (const double difference : differences)
      mean += difference / static_cast<double>(differences.size());
    const double p95 = differences[differences.size() * 95 / 100];
    EXPECT_LE(mean, tolerance.logprob_mean);
    EXPECT_LE(p95, tolerance.logprob_95);
    std::printf(
        "%s: log-probability differences over %zu values: mean %.4f, 95 %% %.4f, max %.4f\n",
        kernels->name, differences.size(), mean, p95, differences.back());
  }
}

TEST_P(GoldenTest, ChunksAndSingleTokensGiveTheSameLogitsToTheBit) {
  const json& prompt = golden()["prompts"][4];  // the longest
  const std::vector<TokenId> tokens = with_answer(prompt);
  const auto count = static_cast<uint32_t>(tokens.size()) - 1;
  // Every tier has its turn on the tiny models; here what is served.
  const kernels::KernelTable* kernels = kernels::supported_kernels().front();
  SCOPED_TRACE(kernels->name);
  model::TestModel runner(file(), *kernels, kLimits, sys::cpu_limits().threads);
  const std::vector<float> whole = runner.forward(tokens, 0, count);
  const uint32_t tail = 6;
  for (uint32_t first = 0; first < count;) {
    const uint32_t n = first + 100 <= count - tail ? 100
                       : first < count - tail      ? count - tail - first
                                                   : 1;
    const std::vector<float> part = runner.forward(tokens, first, n);
    const float* expected = whole.data() + size_t{first} * runner.vocabulary();
    ASSERT_TRUE(std::equal(part.begin(), part.end(), expected)) << "tokens " << first << " + " << n;
    first += n;
  }
}

// The losses of the windows, one each.
std::vector<model::Loss> window_losses(const gguf::File& file, const kernels::KernelTable& kernels,
                                       std::span<const TokenId> tokens, uint32_t windows,
                                       uint32_t window_tokens, std::optional<TokenId> bos) {
  sys::ThreadPool pool(sys::cpu_limits().threads);
  auto evaluator = model::Evaluator::create(file, kernels, pool, window_tokens);
  CHECK(evaluator.ok(), "{}", evaluator.error().message);
  std::vector<model::Loss> losses;
  for (uint32_t w = 0; w < windows; ++w) {
    losses.push_back(
        (*evaluator)->window_loss(tokens.subspan(size_t{w} * window_tokens, window_tokens), bos));
  }
  return losses;
}

model::Loss sum_of(std::span<const model::Loss> losses) {
  model::Loss sum;
  for (const model::Loss& loss : losses) sum.add(loss);
  return sum;
}

TEST_P(GoldenTest, PerplexityIsWithinHalfAPercentOfTheReference) {
  const std::string text = read_file(PACER_SOURCE_DIR "/tests/golden/shakespeare_60k.txt");
  const json& reference = golden()["perplexity"];
  const auto windows = reference["windows"].get<uint32_t>();
  const auto window_tokens = reference["window_tokens"].get<uint32_t>();
  const std::vector<TokenId> tokens =
      tokenizer().encode(text, {.add_special = false, .parse_special = false});
  ASSERT_GE(tokens.size(), size_t{windows} * window_tokens);
  const std::optional<TokenId> bos = tokenizer().adds_bos() ? tokenizer().bos() : std::nullopt;
  ASSERT_EQ(bos.has_value(), reference["bos_before_each_window"].get<bool>());

  const auto value = reference["value"].get<double>();
  double best_two = 0;
  double two = 0;  // of the first two windows; at the end of the loop the scalar tier's
  for (const kernels::KernelTable* kernels : tiers()) {
    SCOPED_TRACE(kernels->name);
    // The scalar tier takes minutes for all of it.
    const bool is_scalar = kernels->tier == kernels::IsaTier::kScalar;
    const std::vector<model::Loss> losses =
        window_losses(file(), *kernels, tokens, is_scalar ? 2 : windows, window_tokens, bos);
    two = sum_of(std::span(losses).first(2)).perplexity();
    if (best_two == 0) best_two = two;
    std::printf("%s: perplexity of the first two windows %.3f\n", kernels->name, two);
    if (is_scalar) continue;
    const model::Loss loss = sum_of(losses);
    EXPECT_EQ(loss.tokens, reference["tokens_scored"].get<uint32_t>());
    EXPECT_NEAR(loss.perplexity(), value, 0.005 * value);
    std::printf("%s: perplexity %.3f, reference %.3f\n", kernels->name, loss.perplexity(), value);
  }
  EXPECT_NEAR(two, best_two, 0.005 * best_two);
}

}  // namespace
}  // namespace pacer
