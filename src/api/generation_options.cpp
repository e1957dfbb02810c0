#include "api/generation_options.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

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

// max_completion_tokens is OpenAI's newer name; where both come, it wins.
std::optional<uint32_t> read_max_tokens(Fields& fields) {
  const auto older = fields.integer("max_tokens", {1, kInt32Max});
  const auto newer = fields.integer("max_completion_tokens", {1, kInt32Max});
  const auto chosen = newer ? newer : older;
  return chosen ? std::optional(static_cast<uint32_t>(*chosen)) : std::nullopt;
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

GenerationOptions read_generation_options(Fields& fields, AnswerKind kind, RandomSource& random) {
  GenerationOptions options;
  read_sampling(fields, options.sampling, random);
  read_logprobs(fields, kind, options.sampling);
  options.max_tokens = read_max_tokens(fields);
  options.n = read_n(fields);
  options.stop = read_stop(fields);
  options.ignore_eos = fields.boolean("ignore_eos", false);
  read_stream(fields, options);
  options.return_token_ids = fields.boolean("return_token_ids", false);
  return options;
}

}  // namespace pacer::api
