// Right answers: the real model against reference outputs, on every kernel tier that this machine
// has.
//
// The reference is transformers on the same GGUF, dequantised to f32 (tests/golden/README.md).
// Log-probabilities are compared under teacher forcing, so that one early difference does not hide
// all later ones.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "kernels/kernel_table.h"
#include "model/model.h"
#include "sys/cpu_features.h"
#include "sys/memory.h"
#include "text/chat_template.h"
#include "text/tokenizer.h"

namespace pacer {
namespace {

using nlohmann::json;

std::string model_path() {
  const auto env = [](const char* name) -> std::string {
    const char* value = std::getenv(name);
    return value == nullptr ? "" : value;
  };
  std::string models = env("PACER_MODELS");
  if (models.empty()) {
    const std::string home = env("PACER_HOME");
    models = (home.empty() ? env("HOME") + "/.cache/pacer" : home) + "/models";
  }
  return models + "/SmolLM2-135M-Instruct.Q4_1.gguf";
}

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

// A model on one tier with a KV cache for one sequence.
class Runner {
 public:
  static constexpr uint32_t kContext = 1024;
  static constexpr uint32_t kRows = 512;

  Runner(const gguf::File& file, const kernels::KernelTable& kernels)
      : pool_(sys::cpu_limits().threads),
        model_(
            must(model::Model::load(file, kernels, pool_, {.tokens = kRows, .logit_rows = kRows}))),
        memory_(must(sys::HugeBuffer::allocate(
            kContext / kv::kBlockTokens * model_->kv_shape().block_bytes(), "KV"))),
        kv_(model_->kv_shape(), kContext / kv::kBlockTokens, {memory_.data(), memory_.size()}),
        logits_(size_t{kRows} * model_->config().vocabulary) {
    // Scattered on purpose: block i of the sequence is not block i of the pool.
    for (uint32_t i = 0; i < kv_.block_count(); ++i)
      blocks_.push_back(kv::BlockId{(i * 37 + 11) % kv_.block_count()});
  }

  // Logits [count][vocabulary] of tokens [first, first + count), after those before them.
  std::span<const float> forward(std::span<const TokenId> tokens, uint32_t first, uint32_t count) {
    const model::SeqSpan span{
        .first_token = 0, .token_count = count, .first_position = first, .blocks = blocks_};
    std::vector<uint32_t> rows(count);
    for (uint32_t i = 0; i < count; ++i) rows[i] = i;
    model_->forward(
        {.tokens = tokens.subspan(first, count), .sequences = {&span, 1}, .logit_rows = rows}, kv_,
        logits_.data());
    return {logits_.data(), size_t{count} * vocabulary()};
  }

  uint32_t vocabulary() const { return model_->config().vocabulary; }

 private:
  template <class T>
  static T must(Result<T> result) {
    CHECK(result.ok(), "{}", result.error().message);
    return *std::move(result);
  }

  sys::ThreadPool pool_;
  std::unique_ptr<model::Model> model_;
  sys::HugeBuffer memory_;
  kv::Storage kv_;
  std::vector<kv::BlockId> blocks_;
  std::vector<float> logits_;
};

std::vector<double> log_softmax(std::span<const float> logits) {
  double best = -HUGE_VAL, sum = 0;
  for (const float x : logits) best = std::max(best, double{x});
  for (const float x : logits) sum += std::exp(x - best);
  std::vector<double> result;
  for (const float x : logits) result.push_back(x - best - std::log(sum));
  return result;
}

class GoldenTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    sys::cpu_features();
    sys::set_denormals_to_zero();
    golden_ =
        json::parse(read_file(PACER_SOURCE_DIR "/tests/golden/smollm2-135m-instruct-q4_1.json"));
    if (!std::ifstream(model_path()).good()) return;  // SetUp() says it
    auto file = gguf::File::open(model_path());
    CHECK(file.ok(), "{}", file.error().message);
    file_ = new gguf::File(*std::move(file));
    auto tokenizer = text::Tokenizer::from_gguf(*file_);
    CHECK(tokenizer.ok(), "{}", tokenizer.error().message);
    tokenizer_ = tokenizer->release();
  }
  static void TearDownTestSuite() {
    delete tokenizer_;
    delete file_;
  }
  void SetUp() override {
    if (file_ != nullptr) return;
    const std::string missing = "no model at " + model_path() + "; tools/fetch_model.sh fetches it";
    // test.sh sets this: where the model was fetched, not finding it is a failure.
    if (std::getenv("PACER_REQUIRE_MODEL") != nullptr) FAIL() << missing;
    GTEST_SKIP() << missing;
  }

  static json golden_;
  static gguf::File* file_;
  static text::Tokenizer* tokenizer_;
};
json GoldenTest::golden_;
gguf::File* GoldenTest::file_ = nullptr;
text::Tokenizer* GoldenTest::tokenizer_ = nullptr;

std::vector<TokenId> with_answer(const json& prompt) {
  std::vector<TokenId> tokens = prompt["prompt_ids"];
  for (const json& step : prompt["greedy"]) tokens.push_back(step["id"]);
  return tokens;
}

TEST_F(GoldenTest, PromptsHaveTheReferenceTokenIds) {
  auto chat_template = text::ChatTemplate::from_gguf(*file_, *tokenizer_);
  ASSERT_TRUE(chat_template.ok()) << chat_template.error().message;
  int chats = 0;
  for (const json& prompt : golden_["prompts"]) {
    SCOPED_TRACE(prompt["name"].get<std::string>());
    const std::vector<TokenId> expected = prompt["prompt_ids"];
    if (prompt["kind"] == "completion") {
      EXPECT_EQ(tokenizer_->encode(prompt["text"].get<std::string>()), expected);
      continue;
    }
    const auto chat =
        (*chat_template)
            ->render(
                json{{"messages", prompt["messages"]}, {"add_generation_prompt", true}}.dump());
    ASSERT_TRUE(chat.ok()) << chat.error().message;
    EXPECT_EQ(chat->plain_text(), prompt["rendered"].get<std::string>());
    EXPECT_EQ(text::encode_chat(*tokenizer_, *chat), expected);
    ++chats;
  }
  EXPECT_GT(chats, 3);
}

TEST_F(GoldenTest, LogProbabilitiesAndGreedyChoicesMatchTheReferenceOnEveryTier) {
  for (const kernels::KernelTable* kernels : kernels::supported_kernels()) {
    SCOPED_TRACE(kernels->name);
    const Tolerance tolerance = tolerance_of(kernels->tier);
    Runner runner(*file_, *kernels);
    std::vector<double> differences;
    for (const json& prompt : golden_["prompts"]) {
      SCOPED_TRACE(prompt["name"].get<std::string>());
      const std::vector<TokenId> tokens = with_answer(prompt);
      const auto prompt_length = static_cast<uint32_t>(prompt["prompt_ids"].size());
      const std::span<const float> logits =
          runner.forward(tokens, 0, static_cast<uint32_t>(tokens.size()) - 1);

      for (uint32_t step = 0; step < prompt["greedy"].size(); ++step) {
        const size_t row = prompt_length - 1 + step;
        const std::vector<double> ours =
            log_softmax(logits.subspan(row * runner.vocabulary(), runner.vocabulary()));
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

TEST_F(GoldenTest, ChunksAndSingleTokensGiveTheSameLogitsToTheBit) {
  const json& prompt = golden_["prompts"][4];  // the longest
  const std::vector<TokenId> tokens = with_answer(prompt);
  const auto count = static_cast<uint32_t>(tokens.size()) - 1;
  for (const kernels::KernelTable* kernels : kernels::supported_kernels()) {
    SCOPED_TRACE(kernels->name);
    Runner runner(*file_, *kernels);
    const std::span<const float> logits = runner.forward(tokens, 0, count);
    const std::vector<float> whole(logits.begin(), logits.end());
    const uint32_t tail = 6;
    for (uint32_t first = 0; first < count;) {
      const uint32_t n = first + 100 <= count - tail ? 100
                         : first < count - tail      ? count - tail - first
                                                     : 1;
      const std::span<const float> part = runner.forward(tokens, first, n);
      const float* expected = whole.data() + size_t{first} * runner.vocabulary();
      ASSERT_TRUE(std::equal(part.begin(), part.end(), expected))
          << "tokens " << first << " + " << n;
      first += n;
    }
  }
}

// Mean negative log-likelihood of the windows, and how many tokens it is over.
std::pair<double, uint32_t> window_loss(Runner& runner, std::span<const TokenId> tokens,
                                        uint32_t windows, uint32_t window_tokens) {
  double loss = 0;
  uint32_t scored = 0;
  for (uint32_t w = 0; w < windows; ++w) {
    const std::span<const TokenId> window =
        tokens.subspan(size_t{w} * window_tokens, window_tokens);
    const std::span<const float> logits = runner.forward(window, 0, window_tokens);
    for (uint32_t i = 0; i + 1 < window_tokens;
         ++i) {  // the first token of a window is not scored: there is no BOS
      loss -= log_softmax(
          logits.subspan(size_t{i} * runner.vocabulary(), runner.vocabulary()))[window[i + 1]];
      ++scored;
    }
  }
  return {loss / scored, scored};
}

TEST_F(GoldenTest, PerplexityIsWithinHalfAPercentOfTheReference) {
  const std::string text = read_file(PACER_SOURCE_DIR "/tests/golden/shakespeare_60k.txt");
  const json& golden = golden_["perplexity"];
  const auto windows = golden["windows"].get<uint32_t>();
  const auto window_tokens = golden["window_tokens"].get<uint32_t>();
  const std::vector<TokenId> tokens =
      tokenizer_->encode(text, {.add_special = false, .parse_special = false});
  ASSERT_GE(tokens.size(), size_t{windows} * window_tokens);

  Runner fast(*file_, *kernels::supported_kernels().front());
  const auto [loss, scored] = window_loss(fast, tokens, windows, window_tokens);
  EXPECT_EQ(scored, golden["tokens_scored"].get<uint32_t>());
  const double perplexity = std::exp(loss);
  std::printf("%s: perplexity %.3f, reference %.3f\n", kernels::supported_kernels().front()->name,
              perplexity, golden["value"].get<double>());
  EXPECT_NEAR(perplexity, golden["value"].get<double>(), 0.005 * golden["value"].get<double>());

  Runner scalar(*file_, *kernels::supported_kernels().back());
  const double fast_two = std::exp(window_loss(fast, tokens, 2, window_tokens).first);
  const double scalar_two = std::exp(window_loss(scalar, tokens, 2, window_tokens).first);
  std::printf("first two windows: scalar %.3f, fast %.3f\n", scalar_two, fast_two);
  EXPECT_NEAR(scalar_two, fast_two, 0.005 * fast_two);
}

}  // namespace
}  // namespace pacer
