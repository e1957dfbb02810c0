// The llama forward pass against a naive one in double precision, on tiny random models: odd
// shapes, grouped heads, chunks, several sequences at once. Needs no model file.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <map>

#include "base/rng.h"
#include "base/test_seed.h"
#include "gguf/test_gguf.h"
#include "model/test_model.h"

namespace pacer::model {
namespace {

struct Shape {
  uint32_t layers = 2, d_model = 64, d_ff = 96, heads = 4, kv_heads = 2, vocabulary = 50;
  bool tied = true;
  uint32_t head_dim() const { return d_model / heads; }
};

using Matrix = std::vector<float>;

// A random model, kept as plain f32 for the reference and written as a GGUF for the loader.
struct TinyModel {
  Shape shape;
  std::map<std::string, Matrix> tensors;

  TinyModel(Shape s, uint64_t seed) : shape(s) {
    Rng rng(seed);
    const auto random = [&](const std::string& name, size_t rows, size_t columns, double center) {
      Matrix m(rows * columns);
      const double scale = 1.5 / std::sqrt(static_cast<double>(columns));
      for (float& x : m) x = static_cast<float>(center + scale * (2 * rng.uniform() - 1));
      tensors[name] = std::move(m);
    };
    random("token_embd.weight", s.vocabulary, s.d_model, 0);
    if (!s.tied) random("output.weight", s.vocabulary, s.d_model, 0);
    random("output_norm.weight", 1, s.d_model, 1);
    for (uint32_t i = 0; i < s.layers; ++i) {
      const std::string p = "blk." + std::to_string(i) + ".";
      random(p + "attn_norm.weight", 1, s.d_model, 1);
      random(p + "attn_q.weight", s.d_model, s.d_model, 0);
      random(p + "attn_k.weight", s.kv_heads * s.head_dim(), s.d_model, 0);
      random(p + "attn_v.weight", s.kv_heads * s.head_dim(), s.d_model, 0);
      random(p + "attn_output.weight", s.d_model, s.d_model, 0);
      random(p + "ffn_norm.weight", 1, s.d_model, 1);
      random(p + "ffn_gate.weight", s.d_ff, s.d_model, 0);
      random(p + "ffn_up.weight", s.d_ff, s.d_model, 0);
      random(p + "ffn_down.weight", s.d_model, s.d_ff, 0);
    }
  }
};

using Vector = std::vector<double>;

Vector times(const Matrix& w, const Vector& x) {
  Vector y(w.size() / x.size(), 0.0);
  for (size_t r = 0; r < y.size(); ++r) {
    for (size_t c = 0; c < x.size(); ++c) y[r] += double{w[r * x.size() + c]} * x[c];
  }
  return y;
}

Vector norm(const Vector& x, const Matrix& weight) {
  double sum = 0;
  for (const double v : x) sum += v * v;
  const double scale = 1 / std::sqrt(sum / static_cast<double>(x.size()) + 1e-5);
  Vector y(x.size());
  for (size_t i = 0; i < x.size(); ++i) y[i] = x[i] * scale * weight[i];
  return y;
}

void rotate(Vector& x, uint32_t head_dim, double position) {
  for (size_t at = 0; at < x.size(); at += 2) {
    const double angle =
        position * std::pow(10000.0, -static_cast<double>(at % head_dim) / head_dim);
    const double a = x[at], b = x[at + 1];
    x[at] = a * std::cos(angle) - b * std::sin(angle);
    x[at + 1] = a * std::sin(angle) + b * std::cos(angle);
  }
}

// Logits of every position, token by token, as the paper says it.
std::vector<Vector> reference_logits(const TinyModel& model, const std::vector<TokenId>& tokens) {
  const Shape& s = model.shape;
  const uint32_t dim = s.head_dim();
  const auto& t = model.tensors;
  std::vector<std::vector<Vector>> keys(s.layers), values(s.layers);
  std::vector<Vector> all;
  for (size_t position = 0; position < tokens.size(); ++position) {
    const Matrix& embedding = t.at("token_embd.weight");
    Vector x(embedding.begin() + tokens[position] * s.d_model,
             embedding.begin() + (tokens[position] + 1) * s.d_model);
    for (uint32_t layer = 0; layer < s.layers; ++layer) {
      const std::string p = "blk." + std::to_string(layer) + ".";
      const Vector h = norm(x, t.at(p + "attn_norm.weight"));
      Vector q = times(t.at(p + "attn_q.weight"), h);
      Vector k = times(t.at(p + "attn_k.weight"), h);
      rotate(q, dim, static_cast<double>(position));
      rotate(k, dim, static_cast<double>(position));
      keys[layer].push_back(k);
      values[layer].push_back(times(t.at(p + "attn_v.weight"), h));
      Vector attended(s.d_model, 0.0);
      for (uint32_t head = 0; head < s.heads; ++head) {
        const size_t kv = head / (s.heads / s.kv_heads) * dim;
        Vector weights;
        double best = -HUGE_VAL, total = 0;
        for (const Vector& key : keys[layer]) {
          double score = 0;
          for (uint32_t i = 0; i < dim; ++i) score += q[head * dim + i] * key[kv + i];
          weights.push_back(score / std::sqrt(static_cast<double>(dim)));
          best = std::max(best, weights.back());
        }
        for (double& w : weights) total += w = std::exp(w - best);
        for (size_t j = 0; j < weights.size(); ++j) {
          for (uint32_t i = 0; i < dim; ++i)
            attended[head * dim + i] += weights[j] / total * values[layer][j][kv + i];
        }
      }
      const Vector out = times(t.at(p + "attn_output.weight"), attended);
      for (size_t i = 0; i < x.size(); ++i) x[i] += out[i];
      const Vector m = norm(x, t.at(p + "ffn_norm.weight"));
      Vector gate = times(t.at(p + "ffn_gate.weight"), m);
      const Vector up = times(t.at(p + "ffn_up.weight"), m);
      for (size_t i = 0; i < gate.size(); ++i) gate[i] = gate[i] / (1 + std::exp(-gate[i])) * up[i];
      const Vector down = times(t.at(p + "ffn_down.weight"), gate);
      for (size_t i = 0; i < x.size(); ++i) x[i] += down[i];
    }
    all.push_back(times(t.at(s.tied ? "token_embd.weight" : "output.weight"),
                        norm(x, t.at("output_norm.weight"))));
  }
  return all;
}

gguf::GgufWriter writer_for(const TinyModel& model) {
  const Shape& s = model.shape;
  gguf::GgufWriter writer;
  writer.add_string("general.architecture", "llama")
      .add_u32("llama.block_count", s.layers)
      .add_u32("llama.embedding_length", s.d_model)
      .add_u32("llama.feed_forward_length", s.d_ff)
      .add_u32("llama.attention.head_count", s.heads)
      .add_u32("llama.attention.head_count_kv", s.kv_heads)
      .add_u32("llama.context_length", 128)
      .add_f32("llama.attention.layer_norm_rms_epsilon", 1e-5f);
  for (const auto& [name, values] : model.tensors) {
    const uint64_t rows =
        name == "token_embd.weight" || name == "output.weight" ? s.vocabulary
        : name.ends_with("norm.weight")                        ? 1
        : name.ends_with("ffn_down.weight")                    ? s.d_model
        : name.find("ffn_") != std::string::npos               ? s.d_ff
        : name.find("attn_k") != std::string::npos || name.find("attn_v") != std::string::npos
            ? s.kv_heads * s.head_dim()
            : s.d_model;
    std::vector<uint64_t> shape = {values.size() / rows};
    if (!name.ends_with("norm.weight")) shape.push_back(rows);
    writer.add_tensor(name, tensor::DType::kF32, shape, values);
  }
  return writer;
}

gguf::File open(const gguf::TempFile& file) {
  auto opened = gguf::File::open(file.path());
  CHECK(opened.ok(), "{}", opened.error().message);
  return *std::move(opened);
}

std::vector<TokenId> random_tokens(Rng& rng, uint32_t count, uint32_t vocabulary) {
  std::vector<TokenId> tokens(count);
  for (TokenId& token : tokens) token = static_cast<TokenId>(rng.below(vocabulary));
  return tokens;
}

constexpr kv::BlockId kBlocksA[] = {kv::BlockId{7}, kv::BlockId{2}, kv::BlockId{11}};
constexpr kv::BlockId kBlocksB[] = {kv::BlockId{5}, kv::BlockId{0}, kv::BlockId{3}};

class LlamaTest : public ::testing::TestWithParam<Shape> {};
INSTANTIATE_TEST_SUITE_P(
    Shapes, LlamaTest,
    ::testing::Values(Shape{}, Shape{.kv_heads = 4, .tied = false},
                      Shape{.heads = 8, .kv_heads = 1},
                      Shape{.layers = 1, .d_model = 96, .d_ff = 64, .heads = 6, .kv_heads = 3},
                      Shape{.d_ff = 160, .vocabulary = 33}));

TEST_P(LlamaTest, ComputesWhatThePaperSaysOnEveryTier) {
  const uint64_t seed = test_seed();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  const TinyModel tiny(GetParam(), seed);
  const gguf::TempFile path(writer_for(tiny).bytes());
  const gguf::File file = open(path);
  Rng rng(seed);
  const std::vector<TokenId> tokens = random_tokens(rng, 37, tiny.shape.vocabulary);
  const std::vector<Vector> expected = reference_logits(tiny, tokens);

  for (const kernels::KernelTable* kernels : kernels::supported_kernels()) {
    SCOPED_TRACE(kernels->name);
    TestModel loaded(file, *kernels, {.tokens = 64, .logit_rows = 64});
    const std::vector<float> logits = loaded.forward(
        tokens, {{.first_token = 0, .token_count = 37, .first_position = 0, .blocks = kBlocksA}});
    for (size_t i = 0; i < tokens.size(); ++i) {
      for (size_t v = 0; v < tiny.shape.vocabulary; ++v) {
        // f32 weights: what is left is f32 arithmetic and a KV cache in f16 (2^-11 of values of
        // order 1).
        ASSERT_NEAR(logits[i * tiny.shape.vocabulary + v], expected[i][v], 0.02)
            << "position " << i << " token " << v;
      }
    }
  }
}

TEST_P(LlamaTest, ASequenceGetsTheSameLogitsToTheBitAloneInChunksAndBesideOthers) {
  const TinyModel tiny(GetParam(), 3);
  const gguf::TempFile path(writer_for(tiny).bytes());
  const gguf::File file = open(path);
  Rng rng(4);
  const std::vector<TokenId> a = random_tokens(rng, 37, tiny.shape.vocabulary);
  const std::vector<TokenId> b = random_tokens(rng, 20, tiny.shape.vocabulary);
  const uint32_t vocabulary = tiny.shape.vocabulary;

  for (const kernels::KernelTable* kernels : kernels::supported_kernels()) {
    SCOPED_TRACE(kernels->name);
    TestModel loaded(file, *kernels, {.tokens = 64, .logit_rows = 64});
    const std::vector<float> alone = loaded.forward(
        a, {{.first_token = 0, .token_count = 37, .first_position = 0, .blocks = kBlocksA}});

    // The same again: b's 20 tokens and a's first 30 in one batch, then one token of each at a
    // time.
    std::vector<TokenId> both = b;
    both.insert(both.end(), a.begin(), a.begin() + 30);
    const std::vector<float> mixed = loaded.forward(
        both, {{.first_token = 0, .token_count = 20, .first_position = 0, .blocks = kBlocksB},
               {.first_token = 20, .token_count = 30, .first_position = 0, .blocks = kBlocksA}});
    ASSERT_TRUE(std::equal(mixed.begin() + 20 * vocabulary, mixed.end(), alone.begin()));
    for (uint32_t position = 30; position < 37; ++position) {
      const std::vector<TokenId> two = {a[position], b[position - 20]};
      const std::vector<float> step = loaded.forward(
          two,
          {{.first_token = 0, .token_count = 1, .first_position = position, .blocks = kBlocksA},
           {.first_token = 1,
            .token_count = 1,
            .first_position = position - 10,
            .blocks = kBlocksB}});
      ASSERT_TRUE(std::equal(step.begin(), step.begin() + vocabulary,
                             alone.begin() + position * vocabulary))
          << "position " << position;
    }
  }
}

TEST(LlamaLoading, RefusesWhatItDoesNotUnderstandByName) {
  const TinyModel tiny(Shape{}, 1);
  const auto refusal = [&](const std::function<void(gguf::GgufWriter&)>& change,
                           const TinyModel& model) {
    gguf::GgufWriter writer = writer_for(model);
    change(writer);
    const gguf::TempFile path(writer.bytes());
    const gguf::File file = open(path);
    sys::ThreadPool pool(1);
    const auto result = Model::load(file, *kernels::supported_kernels().front(), pool,
                                    {.tokens = 8, .logit_rows = 8});
    EXPECT_FALSE(result.ok());
    return result.ok() ? "" : result.error().message;
  };
  EXPECT_THAT(refusal([](auto& w) { w.add_u32("llama.expert_count", 8); }, tiny),
              ::testing::HasSubstr("llama.expert_used_count"));
  EXPECT_THAT(refusal([](auto& w) { w.add_string("llama.rope.scaling.type", "dynamic"); }, tiny),
              ::testing::HasSubstr("'dynamic' is not supported; there is: none, linear, yarn"));
  const auto factors = [](Matrix values) {
    return [values](auto& w) {
      w.add_tensor("rope_freqs.weight", tensor::DType::kF32, {values.size()}, values);
    };
  };
  EXPECT_THAT(refusal(factors(Matrix(7, 1.0f)), tiny),
              ::testing::HasSubstr("'rope_freqs.weight' has shape [7], the heads rotate 8 pairs"));
  EXPECT_THAT(refusal(factors(Matrix(8, 0.0f)), tiny),
              ::testing::HasSubstr("value 0 of tensor 'rope_freqs.weight' is 0"));
  EXPECT_THAT(refusal([](auto& w) { w.add_f32("llama.logit_scale", 8.0f); }, tiny),
              ::testing::HasSubstr("llama.logit_scale is 8; only 1 is supported"));
  EXPECT_THAT(refusal(
                  [](auto& w) {
                    w.add_tensor("blk.0.attn_gate.weight", tensor::DType::kF32, {8}, Matrix(8));
                  },
                  tiny),
              ::testing::HasSubstr("'blk.0.attn_gate.weight' is not one that this"));
  for (const float base : {0.0f, -1.0f, std::nanf(""), HUGE_VALF}) {
    EXPECT_THAT(refusal([&](auto& w) { w.add_f32("llama.rope.freq_base", base); }, tiny),
                ::testing::HasSubstr("no finite number above 0"));
  }

  TinyModel missing = tiny;
  missing.tensors.erase("blk.1.ffn_up.weight");
  EXPECT_THAT(refusal([](auto&) {}, missing),
              ::testing::HasSubstr("'blk.1.ffn_up.weight' is missing"));

  TinyModel misshapen = tiny;
  misshapen.tensors["blk.0.attn_norm.weight"].resize(32);
  EXPECT_THAT(refusal([](auto&) {}, misshapen),
              ::testing::HasSubstr("has shape [32], the model's metadata says [64]"));

  const TinyModel uneven(Shape{.heads = 4, .kv_heads = 3}, 1);
  EXPECT_THAT(refusal([](auto&) {}, uneven),
              ::testing::HasSubstr("4 attention heads do not share 3"));
}

TEST(LlamaLoading, AnUnknownArchitectureIsRefusedWithTheListOfKnownOnes) {
  gguf::GgufWriter writer;
  writer.add_string("general.architecture", "mamba");
  writer.add_tensor("token_embd.weight", tensor::DType::kF32, {32}, Matrix(32));
  const gguf::TempFile path(writer.bytes());
  const gguf::File file = open(path);
  const auto found = find_architecture(file);
  ASSERT_FALSE(found.ok());
  EXPECT_THAT(found.error().message,
              ::testing::HasSubstr("architecture 'mamba' is unknown; there is: llama"));
}

}  // namespace
}  // namespace pacer::model
