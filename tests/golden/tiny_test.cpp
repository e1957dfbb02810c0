// Every architecture and rope scaling against transformers: tiny models with random weights,
// described by tests/golden/tiny/*.json (tests/golden/README.md says how they were made).
//
// Runs anywhere: weights come from a formula. What a real model adds is in golden_test.cpp.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/rng.h"
#include "gguf/test_gguf.h"
#include "model/test_model.h"

namespace pacer {
namespace {

using nlohmann::json;

// Weights are f32 in every tier. What differs from the reference is the order of f32 additions and
// a KV cache in f16 (2^-11 of keys and values of order 1).
constexpr double kTolerance = 0.03;

std::vector<std::string> tiny_models() {
  std::vector<std::string> names;
  for (const auto& entry :
       std::filesystem::directory_iterator(PACER_SOURCE_DIR "/tests/golden/tiny")) {
    if (entry.path().extension() == ".json") names.push_back(entry.path().stem().string());
  }
  std::sort(names.begin(), names.end());
  CHECK(!names.empty(), "no models in tests/golden/tiny");
  return names;
}

json read_golden(const std::string& name) {
  return json::parse(std::ifstream(PACER_SOURCE_DIR "/tests/golden/tiny/" + name + ".json"));
}

std::vector<float> tensor_values(const json& tensor) {
  if (tensor.contains("values")) return tensor["values"].get<std::vector<float>>();
  uint64_t count = 1;
  for (const json& dimension : tensor["shape"]) count *= dimension.get<uint64_t>();
  const uint64_t seed = tensor["seed"].get<uint64_t>() * 0x9e3779b97f4a7c15ull;
  std::vector<float> values(count);
  for (uint64_t i = 0; i < count; ++i) {
    const double u = static_cast<double>(mix64(seed + i) >> 40) * 0x1.0p-24;
    values[i] = static_cast<float>(tensor["offset"].get<double>() +
                                   tensor["scale"].get<double>() * (2 * u - 1));
  }
  return values;
}

void add_metadata(gguf::GgufWriter& writer, const std::string& key, const json& entry) {
  const std::string type = entry["type"];
  const json& value = entry["value"];
  if (type == "str") {
    writer.add_string(key, value.get<std::string>());
  } else if (type == "u32") {
    writer.add_u32(key, value);
  } else if (type == "f32") {
    writer.add_f32(key, value);
  } else if (type == "bool") {
    writer.add_bool(key, value);
  } else if (type == "arr_bool") {
    std::vector<uint8_t> bytes;
    for (const json& element : value) bytes.push_back(element.get<bool>() ? 1 : 0);
    writer.array(key, gguf::ValueType::kBool, bytes);
  } else if (type == "arr_f32") {
    writer.add_floats(key, value);
  } else {
    ASSERT_EQ(type, "arr_i32") << key;
    writer.add_ints(key, value);
  }
}

// The GGUF that a golden describes.
gguf::TempFile write_gguf(const json& golden) {
  gguf::GgufWriter writer;
  for (const auto& [key, entry] : golden["metadata"].items()) add_metadata(writer, key, entry);
  for (const json& tensor : golden["tensors"]) {
    writer.add_tensor(
        tensor["name"].get<std::string>(),
        tensor.value("type", "F32") == "F32" ? tensor::DType::kF32 : tensor::DType::kF16,
        tensor["shape"], tensor_values(tensor));
  }
  return gguf::TempFile(writer.bytes());
}

gguf::File open(const gguf::TempFile& path) {
  auto file = gguf::File::open(path.path());
  CHECK(file.ok(), "{}", file.error().message);
  return *std::move(file);
}

class TinyModelTest : public ::testing::TestWithParam<std::string> {
 protected:
  TinyModelTest()
      : golden_(read_golden(GetParam())), path_(write_gguf(golden_)), file_(open(path_)) {}

  json golden_;
  gguf::TempFile path_;
  gguf::File file_;
};

INSTANTIATE_TEST_SUITE_P(Models, TinyModelTest, ::testing::ValuesIn(tiny_models()),
                         [](const auto& name) { return name.param; });

uint32_t context_of(const json& one) {
  return one.contains("context") ? one["context"].get<uint32_t>() : 0;
}

TEST_P(TinyModelTest, HasTheLogitsOfTransformersOnEveryTier) {
  for (const kernels::KernelTable* kernels : kernels::supported_kernels()) {
    SCOPED_TRACE(kernels->name);
    double worst = 0;
    for (const json& one : golden_["cases"]) {
      const std::vector<TokenId> tokens = one["tokens"];
      const auto count = static_cast<uint32_t>(tokens.size());
      model::TestModel model(file_, *kernels, {.tokens = count, .logit_rows = count}, 2,
                             context_of(one));
      const std::vector<float> logits = model.forward(tokens, 0, count);
      ASSERT_FALSE(one["logits"].empty());
      for (const auto& [position, expected] : one["logits"].items()) {
        const float* row = logits.data() + std::stoul(position) * model.vocabulary();
        ASSERT_EQ(expected.size(), model.vocabulary());
        for (size_t v = 0; v < expected.size(); ++v) {
          const double difference = std::abs(row[v] - expected[v].get<double>());
          worst = std::max(worst, difference);
          ASSERT_LE(difference, kTolerance) << "position " << position << " token " << v;
        }
      }
    }
    std::printf("%s, %s: largest difference of a logit %.5f\n", GetParam().c_str(), kernels->name,
                worst);
  }
}

// A golden that could not fail would be worth nothing: what each feature moves is recorded.
TEST_P(TinyModelTest, WouldFailWithoutAnyOfItsFeatures) {
  ASSERT_FALSE(golden_["moved_by"].empty());
  for (const auto& [feature, moved] : golden_["moved_by"].items()) {
    EXPECT_GT(moved.get<double>(), 5 * kTolerance) << feature;
  }
}

TEST_P(TinyModelTest, ASequenceGetsTheSameLogitsToTheBitAloneInChunksAndBesideOthers) {
  const std::vector<TokenId> a = golden_["cases"][0]["tokens"];
  const auto count = static_cast<uint32_t>(a.size());
  const uint32_t prompt = count - 7;
  const std::vector<TokenId> b(a.rbegin(), a.rbegin() + 20);
  const std::vector<kv::BlockId> blocks_a = model::TestModel::scattered(0, 8);
  const std::vector<kv::BlockId> blocks_b = model::TestModel::scattered(8, 16);
  const auto span_a = [&](uint32_t token, uint32_t first, uint32_t n) {
    return model::SeqSpan{
        .first_token = token, .token_count = n, .first_position = first, .blocks = blocks_a};
  };
  const auto span_b = [&](uint32_t token, uint32_t first, uint32_t n) {
    return model::SeqSpan{
        .first_token = token, .token_count = n, .first_position = first, .blocks = blocks_b};
  };

  for (const kernels::KernelTable* kernels : kernels::supported_kernels()) {
    SCOPED_TRACE(kernels->name);
    const uint32_t rows = count + 20;
    model::TestModel model(file_, *kernels, {.tokens = rows, .logit_rows = rows});
    const uint32_t vocabulary = model.vocabulary();
    const std::vector<float> alone = model.forward(a, {span_a(0, 0, count)});

    // The same again: b's tokens and a's prompt in one batch, then one token of each at a time.
    std::vector<TokenId> both = b;
    both.insert(both.end(), a.begin(), a.begin() + prompt);
    const std::vector<float> mixed = model.forward(both, {span_b(0, 0, 20), span_a(20, 0, prompt)});
    ASSERT_TRUE(std::equal(mixed.begin() + 20 * vocabulary, mixed.end(), alone.begin()));
    for (uint32_t position = prompt; position < count; ++position) {
      const std::vector<TokenId> step = {a[position], b[position - prompt]};
      const std::vector<float> logits =
          model.forward(step, {span_a(0, position, 1), span_b(1, 20 + position - prompt, 1)});
      ASSERT_TRUE(std::equal(logits.begin(), logits.begin() + vocabulary,
                             alone.begin() + position * vocabulary))
          << "position " << position;
    }
  }
}

// Logits of the first case on the best tier.
std::vector<float> best_logits(const json& golden) {
  const gguf::TempFile path = write_gguf(golden);
  const gguf::File file = open(path);
  const std::vector<TokenId> tokens = golden["cases"][0]["tokens"];
  const auto count = static_cast<uint32_t>(tokens.size());
  model::TestModel model(file, *kernels::supported_kernels().front(),
                         {.tokens = count, .logit_rows = count});
  return model.forward(tokens, 0, count);
}

std::string refusal(const json& golden) {
  const gguf::TempFile path = write_gguf(golden);
  const Status status = model::Model::check(open(path), *kernels::supported_kernels().front());
  return status.ok() ? "taken" : status.error().message;
}

json& tensor_named(json& golden, const std::string& name) {
  for (json& tensor : golden["tensors"]) {
    if (tensor["name"] == name) return tensor;
  }
  CHECK(false, "no tensor {}", name);
}

// Older mixtures: ffn_gate.0.weight, ffn_gate.1.weight, ... instead of ffn_gate_exps.weight.
json with_separate_experts(const json& golden) {
  json result = golden;
  result["tensors"] = json::array();
  for (const json& tensor : golden["tensors"]) {
    const std::string name = tensor["name"];
    const size_t at = name.find("_exps.weight");
    if (at == std::string::npos) {
      result["tensors"].push_back(tensor);
      continue;
    }
    const std::vector<float> values = tensor_values(tensor);
    const std::vector<uint64_t> shape = tensor["shape"];
    const size_t size = shape[0] * shape[1];
    for (uint64_t e = 0; e < shape[2]; ++e) {
      result["tensors"].push_back(
          {{"name", name.substr(0, at) + "." + std::to_string(e) + ".weight"},
           {"shape", {shape[0], shape[1]}},
           {"values",
            std::vector<float>(values.begin() + e * size, values.begin() + (e + 1) * size)}});
    }
  }
  return result;
}

TEST(TinyModelFiles, ExpertsInTensorsOfTheirOwnAreTheSameModel) {
  const json golden = read_golden("mixtral");
  json separate = with_separate_experts(golden);
  EXPECT_EQ(best_logits(separate), best_logits(golden));
  tensor_named(separate, "blk.1.ffn_up.3.weight")["type"] = "F16";
  EXPECT_NE(refusal(separate).find("'blk.1.ffn_up.3.weight' is of another type than expert 0's"),
            std::string::npos)
      << refusal(separate);
}

TEST(TinyModelFiles, TheOlderKeyOfLinearScalingMeansTheSame) {
  const json golden = read_golden("llama_linear");
  json older = golden;
  const json factor = older["metadata"]["llama.rope.scaling.factor"];
  ASSERT_EQ(factor["value"], 4.0);
  older["metadata"].erase("llama.rope.scaling.factor");
  older["metadata"]["llama.rope.scale_linear"] = factor;
  EXPECT_EQ(best_logits(older), best_logits(golden));
  older["metadata"].erase("llama.rope.scaling.type");
  EXPECT_EQ(best_logits(older), best_logits(golden));
}

TEST(TinyModelFiles, ABiasOnTheOutputOfAttentionCounts) {
  json golden = read_golden("llama");
  const std::vector<float> without = best_logits(golden);
  const uint64_t d_model = golden["metadata"]["llama.embedding_length"]["value"];
  golden["tensors"].push_back({{"name", "blk.0.attn_output.bias"},
                               {"shape", {d_model}},
                               {"values", std::vector<float>(d_model, 0.5f)}});
  EXPECT_NE(best_logits(golden), without);
  tensor_named(golden, "blk.0.attn_output.bias")["values"] = std::vector<float>(d_model, 0.0f);
  EXPECT_EQ(best_logits(golden), without);
}

TEST(TinyModelFiles, WhatIsNotImplementedIsRefusedByName) {
  const auto with = [](const char* name, const char* key, const char* type, json value) {
    json golden = read_golden(name);
    golden["metadata"][key] = {{"type", type}, {"value", std::move(value)}};
    return refusal(golden);
  };
  EXPECT_NE(with("llama", "llama.attention.causal", "bool", false).find("causal is false"),
            std::string::npos);
  EXPECT_NE(with("qwen2", "qwen2.attention.sliding_window", "u32", 32)
                .find("qwen2.attention.sliding_window 32 is not supported"),
            std::string::npos);
  EXPECT_NE(with("phi3", "phi3.attention.sliding_window_pattern", "u32", 2)
                .find("sliding_window_pattern is not supported"),
            std::string::npos);
  EXPECT_NE(
      with("gemma3_pattern", "gemma3.attention.sliding_window_pattern", "arr_bool", {true, false})
          .find("has 2 entries for 3 layers"),
      std::string::npos);
  EXPECT_NE(with("qwen2", "qwen2.expert_count", "u32", 4).find("qwen2.expert_count is 4"),
            std::string::npos);

  json fused = read_golden("phi3");
  tensor_named(fused, "blk.0.attn_qkv.weight")["shape"][1] = 64;
  EXPECT_NE(refusal(fused).find("'blk.0.attn_qkv.weight' has shape [64, 64]"), std::string::npos)
      << refusal(fused);
  json stacked = read_golden("mixtral");
  tensor_named(stacked, "blk.0.ffn_up_exps.weight")["shape"][2] = 7;
  EXPECT_NE(refusal(stacked).find("'blk.0.ffn_up_exps.weight' has shape [64, 96, 7]"),
            std::string::npos)
      << refusal(stacked);
  // LongRoPE's lists where the file says that there is no scaling: nobody would use them.
  json unused = read_golden("phi3_longrope");
  unused["metadata"]["phi3.rope.scaling.type"] = {{"type", "str"}, {"value", "none"}};
  EXPECT_NE(refusal(unused).find("is not one that this architecture has"), std::string::npos)
      << refusal(unused);
}

}  // namespace
}  // namespace pacer
