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

class TinyModelTest : public ::testing::TestWithParam<std::string> {
 protected:
  TinyModelTest() : golden_(read_golden(GetParam())) {
    gguf::GgufWriter writer;
    for (const auto& [key, entry] : golden_["metadata"].items()) add_metadata(writer, key, entry);
    for (const json& tensor : golden_["tensors"]) {
      writer.add_tensor(tensor["name"].get<std::string>(), tensor::DType::kF32, tensor["shape"],
                        tensor_values(tensor));
    }
    path_ = std::make_unique<gguf::TempFile>(writer.bytes());
    auto file = gguf::File::open(path_->path());
    CHECK(file.ok(), "{}", file.error().message);
    file_ = std::make_unique<gguf::File>(*std::move(file));
  }

  json golden_;
  std::unique_ptr<gguf::TempFile> path_;
  std::unique_ptr<gguf::File> file_;
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
      model::TestModel model(*file_, *kernels,
                             {.tokens = count, .logit_rows = count, .context = context_of(one)});
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
    model::TestModel model(*file_, *kernels, {.tokens = rows, .logit_rows = rows});
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

}  // namespace
}  // namespace pacer
