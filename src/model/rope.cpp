#include "model/rope.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "gguf/cursor.h"  // shown
#include "model/registry.h"

namespace pacer::model {

namespace {

constexpr uint64_t kContextMax = 1 << 24;
constexpr char kFactors[] = "rope_freqs.weight";
constexpr char kFactorsShort[] = "rope_factors_short.weight";
constexpr char kFactorsLong[] = "rope_factors_long.weight";

// The dimension (as a pair index) that turns `rotations` times within the original context.
double pair_of_rotations(double rotations, double context, uint32_t dims, double base) {
  return dims * std::log(context / (rotations * 2 * std::numbers::pi)) / (2 * std::log(base));
}

// "NTK-by-parts": pairs that turn often within the original context keep their frequency, those
// that do not complete a turn are interpolated, and a linear ramp joins them.
Status apply_yarn(const gguf::File& file, const std::string& scaling, double factor, double context,
                  double base, RopeConfig& rope) {
  ASSIGN_OR_RETURN(const float fast, read_positive(file, scaling + "yarn_beta_fast", 32.0f));
  ASSIGN_OR_RETURN(const float slow, read_positive(file, scaling + "yarn_beta_slow", 1.0f));
  const double first = std::max(0.0, std::floor(pair_of_rotations(fast, context, rope.dims, base)));
  const double last =
      std::min(rope.dims - 1.0, std::ceil(pair_of_rotations(slow, context, rope.dims, base)));
  const double width = std::max(last - first, 0.001);  // as the paper's code: no division by zero
  for (uint32_t i = 0; i < rope.dims / 2; ++i) {
    const double interpolated = std::clamp((i - first) / width, 0.0, 1.0);
    const double frequency = rope.frequencies[i];
    rope.frequencies[i] =
        static_cast<float>(frequency / factor * interpolated + frequency * (1 - interpolated));
  }
  rope.magnitude *= static_cast<float>(1.0 + 0.1 * std::log(std::max(factor, 1.0)));
  return Ok{};
}

Status divide_by(const gguf::File& file, std::string_view name, RopeConfig& rope) {
  const gguf::TensorInfo* tensor = file.find_tensor(name);
  if (tensor == nullptr)
    return error(Code::kBadFile, "{}: tensor '{}' is missing", file.path(), name);
  if (tensor->shape != std::vector<uint64_t>{rope.dims / 2}) {
    return error(Code::kBadFile, "{}: tensor '{}' has shape [{}], the heads rotate {} pairs",
                 file.path(), name, fmt::join(tensor->shape, ", "), rope.dims / 2);
  }
  std::vector<float> factors(rope.dims / 2);
  tensor::dequantize(tensor->dtype, tensor->data.data(), factors.size(), factors.data());
  for (size_t i = 0; i < factors.size(); ++i) {
    if (!std::isfinite(factors[i]) || factors[i] <= 0) {
      return error(Code::kBadFile,
                   "{}: value {} of tensor '{}' is {}, which is no finite number "
                   "above 0",
                   file.path(), i, name, factors[i]);
    }
    rope.frequencies[i] /= factors[i];
  }
  return Ok{};
}

// Which list applies depends on the longest sequence that is served, so that all of its keys are
// rotated alike.
Status apply_longrope(const gguf::File& file, const RopeRequest& request, double original,
                      bool has_magnitude, RopeConfig& rope) {
  const bool is_long = request.served_context > original;
  TRY(divide_by(file, is_long ? kFactorsLong : kFactorsShort, rope));
  rope.tensors = {kFactorsShort, kFactorsLong};
  if (!has_magnitude && original > 1 && request.trained_context > original) {
    rope.magnitude = static_cast<float>(
        std::sqrt(1 + std::log(request.trained_context / original) / std::log(original)));
  }
  return Ok{};
}

// The type and the factor, from today's keys or the older scale_linear.
struct Scaling {
  std::string_view type = "none";
  float factor = 1.0f;
};

Result<Scaling> read_scaling(const gguf::File& file, const std::string& prefix) {
  Scaling scaling;
  ASSIGN_OR_RETURN(const auto type, file.find_string(prefix + "rope.scaling.type"));
  ASSIGN_OR_RETURN(const float older, read_positive(file, prefix + "rope.scale_linear", 1.0f));
  ASSIGN_OR_RETURN(scaling.factor, read_positive(file, prefix + "rope.scaling.factor", older));
  if (type) {
    scaling.type = *type;
  } else if (file.find_tensor(kFactorsLong) != nullptr) {
    scaling.type = "longrope";
  } else if (scaling.factor != 1.0f) {  // a factor alone means linear
    scaling.type = "linear";
  }
  return scaling;
}

}  // namespace

RopeConfig plain_rope(uint32_t dims, kernels::RopePairing pairing, float base) {
  RopeConfig rope{.dims = dims, .pairing = pairing, .frequencies = {}, .tensors = {}};
  for (uint32_t i = 0; i < dims / 2; ++i) {
    rope.frequencies.push_back(static_cast<float>(1.0 / std::pow(double{base}, 2.0 * i / dims)));
  }
  return rope;
}

Result<RopeConfig> read_rope(const gguf::File& file, const RopeRequest& request) {
  const std::string& prefix = request.prefix;
  ASSIGN_OR_RETURN(const uint32_t dims, read_count_or(file, prefix + "rope.dimension_count",
                                                      request.head_dim, request.head_dim));
  if (dims % 2 != 0) {
    return error(Code::kBadFile, "{}: {}rope.dimension_count is {}, an odd number", file.path(),
                 prefix, dims);
  }
  ASSIGN_OR_RETURN(const float base,
                   read_positive(file, prefix + "rope.freq_base", request.base_default));
  RopeConfig rope = plain_rope(dims, request.pairing, base);
  ASSIGN_OR_RETURN(const Scaling scaling, read_scaling(file, prefix));
  // LongRoPE has lists of its own; rope_freqs beside them is then a tensor that nobody claims.
  if (scaling.type != "longrope" && file.find_tensor(kFactors) != nullptr) {
    TRY(divide_by(file, kFactors, rope));
    rope.tensors = {kFactors};
  }
  const std::string keys = prefix + "rope.scaling.";
  ASSIGN_OR_RETURN(const uint32_t original, read_count_or(file, keys + "original_context_length",
                                                          kContextMax, request.trained_context));
  ASSIGN_OR_RETURN(const auto magnitude, file.find_float(keys + "attn_factor"));
  ASSIGN_OR_RETURN(rope.magnitude, read_positive(file, keys + "attn_factor", 1.0f));
  if (scaling.type == "linear") {
    for (float& frequency : rope.frequencies) frequency /= scaling.factor;
  } else if (scaling.type == "yarn") {
    TRY(apply_yarn(file, keys, scaling.factor, original, base, rope));
  } else if (scaling.type == "longrope") {
    TRY(apply_longrope(file, request, original, magnitude.has_value(), rope));
  } else if (scaling.type != "none") {
    return error(Code::kUnsupported,
                 "{}: {}type '{}' is not supported; there is: none, linear, "
                 "yarn, longrope",
                 file.path(), keys, gguf::shown(scaling.type));
  }
  return rope;
}

}  // namespace pacer::model
