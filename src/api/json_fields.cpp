#include "api/json_fields.h"

#include <fmt/format.h>

#include <cmath>
#include <utility>

#include "api/json_format.h"
#include "base/check.h"

namespace pacer::api {

namespace {

constexpr size_t kShownBytesMax = 40;  // of a value in an error

}  // namespace

std::string describe(const Json& value) {
  if (value.is_array()) return value.empty() ? "an empty array" : "an array";
  if (value.is_object()) return value.empty() ? "an empty object" : "an object";
  if (value.is_string()) {
    return json_string(shortened(value.get_ref<const std::string&>(), kShownBytesMax));
  }
  return value.dump();
}

std::optional<int64_t> as_integer(const Json& value) {
  if (value.is_number_unsigned()) {
    const auto number = value.get<uint64_t>();
    if (number > static_cast<uint64_t>(INT64_MAX)) return std::nullopt;
    return static_cast<int64_t>(number);
  }
  if (value.is_number_integer()) return value.get<int64_t>();
  if (value.is_number_float()) {
    // Beyond 2^53 a double no longer says which integer was meant.
    constexpr double kExactMax = 9007199254740992.0;
    const auto number = value.get<double>();
    if (std::trunc(number) != number || std::abs(number) > kExactMax) return std::nullopt;
    return static_cast<int64_t>(number);
  }
  return std::nullopt;
}

bool is_empty_value(const Json& value) {
  if (value.is_string()) return value.get_ref<const std::string&>().empty();
  return value.is_structured() && value.empty();
}

Fields::Fields(const Json& object, std::string path) : object_(object), path_(std::move(path)) {
  CHECK(object.is_object(), "fields of a JSON {}", object.type_name());
}

const Json* Fields::find(std::string_view name) {
  read_.emplace(name);
  return peek(name);
}

const Json* Fields::peek(std::string_view name) const {
  const auto found = object_.find(name);
  return found == object_.end() || found->is_null() ? nullptr : &*found;
}

bool Fields::boolean(std::string_view name, bool fallback) {
  const Json* value = find(name);
  if (value == nullptr) return fallback;
  if (value->is_boolean()) return value->get<bool>();
  fail(name, "true or false", *value);
  return fallback;
}

double Fields::number(std::string_view name, double fallback, NumberRange range) {
  const Json* value = find(name);
  if (value == nullptr) return fallback;
  if (value->is_number()) {
    const auto number = value->get<double>();
    const bool above = range.min_excluded ? number > range.min : number >= range.min;
    if (above && number <= range.max) return number;
  }
  fail(name,
       fmt::format("a number in {}{}, {}]", range.min_excluded ? '(' : '[', range.min, range.max),
       *value);
  return fallback;
}

std::optional<int64_t> Fields::integer(std::string_view name, IntegerRange range) {
  const Json* value = find(name);
  if (value == nullptr) return std::nullopt;
  const std::optional<int64_t> number = as_integer(*value);
  if (number && *number >= range.min && *number <= range.max) return number;
  fail(name, fmt::format("an integer in [{}, {}]", range.min, range.max), *value);
  return std::nullopt;
}

std::optional<std::string> Fields::string(std::string_view name, size_t max_bytes) {
  const Json* value = find(name);
  if (value == nullptr) return std::nullopt;
  if (!value->is_string()) {
    fail(name, "a string", *value);
    return std::nullopt;
  }
  const auto& text = value->get_ref<const std::string&>();
  if (text.size() <= max_bytes) return text;
  fail(name, fmt::format("a string of at most {} bytes, not of {}", max_bytes, text.size()),
       *value);
  return std::nullopt;
}

const Json* Fields::object(std::string_view name) {
  const Json* value = find(name);
  if (value == nullptr || value->is_object()) return value;
  fail(name, "an object", *value);
  return nullptr;
}

const Json* Fields::array(std::string_view name) {
  const Json* value = find(name);
  if (value == nullptr || value->is_array()) return value;
  fail(name, "an array", *value);
  return nullptr;
}

void Fields::fail(std::string_view name, std::string_view must_be, const Json& value) {
  Error failure = pacer::error(Code::kInvalidArgument, "'{}' must be {}, not {}", full_name(name),
                               must_be, describe(value));
  failure.param = full_name(name);
  fail(std::move(failure));
}

void Fields::fail(Error error) {
  if (!error_) error_ = std::move(error);
}

std::vector<std::string_view> Fields::unread() const {
  std::vector<std::string_view> names;
  for (const auto& [name, value] : object_.items()) {
    if (!read_.contains(name)) names.push_back(name);
  }
  return names;
}

std::string Fields::full_name(std::string_view name) const {
  return path_.empty() ? std::string(name) : fmt::format("{}.{}", path_, name);
}

}  // namespace pacer::api
