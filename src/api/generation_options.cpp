#include "api/generation_options.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>

#include "api/json_format.h"
#include "api/token_ids.h"

namespace pacer::api {

namespace {

constexpr int64_t kInt32Max = std::numeric_limits<int32_t>::max();

void refuse(Fields& fields, std::string_view param, std::string message) {
  fields.fail(Error{Code::kInvalidArgument, std::move(message), std::string(param)});
}

// Below this the distribution is its maximum in float arithmetic anyway, and logits / temperature
// overflow.
constexpr double kGreedyBelow = 1e-3;

void read_sampling(Fields& fields, SamplingParams& sampling, RandomSource& random) {
  const double temperature = fields.number("temperature", 1.0, {0.0, 2.0});
  sampling.temperature = temperature < kGreedyBelow ? 0.0f : static_cast<float>(temperature);
  // A double just above 0 may be 0 as a float, which would keep no token at all.
  const double top_p = fields.number("top_p", 1.0, {0.0, 1.0, /*min_excluded=*/true});
  sampling.top_p = std::max(static_cast<float>(top_p), std::numeric_limits<float>::min());
  // -1 is how vLLM spells "off".
  const int64_t top_k = fields.integer("top_k", {-1, kInt32Max}).value_or(0);
  sampling.top_k = top_k < 0 ? 0 : static_cast<uint32_t>(top_k);
  sampling.min_p = static_cast<float>(fields.number("min_p", 0.0, {0.0, 1.0}));
  const auto seed = fields.integer(
      "seed", {std::numeric_limits<int64_t>::min(), std::numeric_limits<int64_t>::max()});
  sampling.seed = seed ? static_cast<uint64_t>(*seed) : random.next();
}

constexpr double kRepetitionPenaltyMax = 100;
// Below this a positive logit may leave the range of a float.
constexpr double kRepetitionPenaltyMin = 1e-6;
constexpr double kLogitBiasValueMax = 100;

// "1234", as a client writes a token id where only strings can be.
std::optional<TokenId> id_of_key(std::string_view key, uint32_t vocabulary_size) {
  TokenId id = 0;
  const auto [end, code] = std::from_chars(key.data(), key.data() + key.size(), id);
  const bool whole = code == std::errc() && end == key.data() + key.size();
  const bool shortest = key == "0" || !key.starts_with('0');  // one key for one token
  return whole && shortest && id < vocabulary_size ? std::optional(id) : std::nullopt;
}

std::vector<LogitBias> read_logit_bias(Fields& fields, uint32_t vocabulary_size) {
  std::vector<LogitBias> biases;
  const Json* object = fields.object("logit_bias");
  if (object == nullptr) return biases;
  if (object->size() > kLogitBiasMax) {
    refuse(fields, "logit_bias",
           fmt::format("'logit_bias' has {} entries, but at most {} are allowed", object->size(),
                       kLogitBiasMax));
    return biases;
  }
  for (const auto& [key, value] : object->items()) {
    const std::string name = "logit_bias." + shortened(key, 40);
    const std::optional<TokenId> id = id_of_key(key, vocabulary_size);
    if (!id) {
      refuse(fields, name,
             fmt::format("'logit_bias' has the key {}; keys must be token ids in [0, {}]",
                         json_string(shortened(key, 40)), vocabulary_size - 1));
      return biases;
    }
    if (!value.is_number() || !(std::abs(value.get<double>()) <= kLogitBiasValueMax)) {
      fields.fail(name, "a number in [-100, 100]", value);
      return biases;
    }
    const auto bias = value.get<float>();
    if (bias != 0) biases.push_back({.id = *id, .bias = bias});
  }
  return biases;
}

void read_penalties(Fields& fields, SamplingParams& sampling, uint32_t vocabulary_size) {
  sampling.logit_bias = read_logit_bias(fields, vocabulary_size);
  const NumberRange range{-2.0, 2.0};
  sampling.presence_penalty = static_cast<float>(fields.number("presence_penalty", 0.0, range));
  sampling.frequency_penalty = static_cast<float>(fields.number("frequency_penalty", 0.0, range));
  const double repetition =
      fields.number("repetition_penalty", 1.0, {0.0, kRepetitionPenaltyMax, /*min_excluded=*/true});
  sampling.repetition_penalty = static_cast<float>(std::max(repetition, kRepetitionPenaltyMin));
}

// Chat: a switch and a count. Completions: a count, of which 0 still gives the chosen token's.
void read_logprobs(Fields& fields, AnswerKind kind, SamplingParams& sampling) {
  if (kind == AnswerKind::kCompletion) {
    if (const auto top = fields.integer("logprobs", {0, kTopLogprobsMax})) {
      sampling.logprobs = static_cast<uint32_t>(*top);
    }
    return;
  }
  const bool wanted = fields.boolean("logprobs", false);
  const int64_t top = fields.integer("top_logprobs", {0, kTopLogprobsMax}).value_or(0);
  if (wanted) {
    sampling.logprobs = static_cast<uint32_t>(top);
  } else if (top > 0) {
    refuse(fields, "top_logprobs",
           fmt::format("'top_logprobs' is {}, but needs 'logprobs' to be true", top));
  }
}

// max_completion_tokens is OpenAI's newer name; where both come, it wins. Where the prompt is said
// again, that alone may be wanted.
void read_lengths(Fields& fields, GenerationOptions& options) {
  const IntegerRange range{options.echo ? 0 : 1, kInt32Max};
  const auto older = fields.integer("max_tokens", range);
  const auto newer = fields.integer("max_completion_tokens", range);
  if (const auto chosen = newer ? newer : older) {
    options.max_tokens = static_cast<uint32_t>(*chosen);
  }
  const auto min_tokens = fields.integer("min_tokens", {0, kInt32Max}).value_or(0);
  options.sampling.min_tokens = static_cast<uint32_t>(min_tokens);
  if (options.max_tokens && min_tokens > *options.max_tokens) {
    refuse(fields, "min_tokens",
           fmt::format("'min_tokens' is {}, but the answer has at most {} tokens", min_tokens,
                       *options.max_tokens));
  }
}

uint32_t read_n(Fields& fields) {
  const int64_t n = fields.integer("n", {1, kChoicesPerPromptMax}).value_or(1);
  const int64_t best_of = fields.integer("best_of", {1, kInt32Max}).value_or(n);
  if (best_of != n) {
    Error refusal =
        error(Code::kUnsupported, "'best_of' {} is not supported; only n, here {}, is", best_of, n);
    refusal.param = "best_of";
    fields.fail(std::move(refusal));
  }
  return static_cast<uint32_t>(n);
}

void add_stop(Fields& fields, const std::string& name, const Json& value,
              std::vector<std::string>& stop) {
  if (value.is_string()) {
    const auto& text = value.get_ref<const std::string&>();
    if (!text.empty() && text.size() <= kStopBytesMax) return stop.push_back(text);
    refuse(fields, name,
           fmt::format("'{}' must have 1 to {} bytes, not {}", name, kStopBytesMax, text.size()));
    return;
  }
  fields.fail(name, "a string", value);
}

std::vector<std::string> read_stop(Fields& fields) {
  std::vector<std::string> stop;
  const Json* value = fields.find("stop");
  if (value == nullptr) return stop;
  if (value->is_string()) {
    add_stop(fields, "stop", *value, stop);
  } else if (!value->is_array()) {
    fields.fail("stop", "a string or a list of strings", *value);
  } else if (value->size() > kStopStringsMax) {
    refuse(fields, "stop",
           fmt::format("'stop' has {} strings, but at most {} are allowed", value->size(),
                       kStopStringsMax));
  } else {
    for (size_t i = 0; i < value->size(); ++i) {
      add_stop(fields, fmt::format("stop[{}]", i), (*value)[i], stop);
    }
  }
  return stop;
}

std::vector<TokenId> read_stop_token_ids(Fields& fields, uint32_t vocabulary_size) {
  const Json* value = fields.array("stop_token_ids");
  if (value == nullptr) return {};
  if (value->size() > kStopTokensMax) {
    refuse(fields, "stop_token_ids",
           fmt::format("'stop_token_ids' has {} ids, but at most {} are allowed", value->size(),
                       kStopTokensMax));
    return {};
  }
  Result<std::vector<TokenId>> ids = read_token_ids(*value, "stop_token_ids", vocabulary_size);
  if (ids) return *std::move(ids);
  fields.fail(ids.error());
  return {};
}

void read_stream(Fields& fields, GenerationOptions& options) {
  options.stream = fields.boolean("stream", false);
  const Json* object = fields.object("stream_options");
  if (object == nullptr) return;
  if (!options.stream) {
    refuse(fields, "stream_options", "'stream_options' is only allowed with 'stream': true");
    return;
  }
  Fields stream_options(*object, "stream_options");
  options.include_usage = stream_options.boolean("include_usage", false);
  options.continuous_usage_stats =
      stream_options.boolean("continuous_usage_stats", false) && options.include_usage;
  // Padding against traffic analysis (OpenAI): nothing that we add, so nothing to switch off.
  stream_options.boolean("include_obfuscation", false);
  if (!stream_options.ok()) fields.fail(stream_options.error());
}

}  // namespace

GenerationOptions read_generation_options(Fields& fields, AnswerKind kind, RandomSource& random,
                                          uint32_t vocabulary_size) {
  GenerationOptions options;
  read_sampling(fields, options.sampling, random);
  read_penalties(fields, options.sampling, vocabulary_size);
  read_logprobs(fields, kind, options.sampling);
  // A chat has no text before the answer that one could say again; see field_rules.
  if (kind == AnswerKind::kCompletion) options.echo = fields.boolean("echo", false);
  read_lengths(fields, options);
  options.n = read_n(fields);
  options.stop = read_stop(fields);
  options.stop_token_ids = read_stop_token_ids(fields, vocabulary_size);
  options.ignore_eos = fields.boolean("ignore_eos", false);
  read_stream(fields, options);
  options.return_token_ids = fields.boolean("return_token_ids", false);
  return options;
}

}  // namespace pacer::api
