// Reads the fields of one JSON object: typed, bounded, and with errors that name the field, the
// value and the limit.
//
// The first error sticks and later reads give their fallback, so that a parser is a plain list of
// reads with one check at its end. null counts as absent: client libraries send it for what was not
// set. Remembers which names were asked for: the rest is unknown to us.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "api/json_body.h"
#include "base/result.h"

namespace pacer::api {

struct NumberRange {
  double min = 0;
  double max = 0;
  bool min_excluded = false;  // (min, max] instead of [min, max]
};

struct IntegerRange {
  int64_t min = 0;
  int64_t max = 0;
};

// A value as it appears in an error: `"hot"`, `3.5`, `null`, `an array`.
std::string describe(const Json& value);

// The whole number that a JSON value is: 16, and also 16.0 and 1e3, as some languages write them.
std::optional<int64_t> as_integer(const Json& value);

// "", [] or {}: what some clients send for "none".
bool is_empty_value(const Json& value);

class Fields {
 public:
  // path: what names in errors start with, such as "stream_options". The object outlives this.
  explicit Fields(const Json& object, std::string path = {});

  // The member when it is there and not null.
  const Json* find(std::string_view name);
  // The same, for who leaves it to others to check the member.
  const Json* peek(std::string_view name) const;
  bool is_read(std::string_view name) const { return read_.contains(name); }

  bool boolean(std::string_view name, bool fallback);
  double number(std::string_view name, double fallback, NumberRange range);
  std::optional<int64_t> integer(std::string_view name, IntegerRange range);
  std::optional<std::string> string(std::string_view name, size_t max_bytes);
  const Json* object(std::string_view name);
  const Json* array(std::string_view name);

  // "'temperature' must be a number in [0, 2], not "hot"".
  void fail(std::string_view name, std::string_view must_be, const Json& value);
  void fail(Error error);

  bool ok() const { return !error_.has_value(); }
  const Error& error() const { return *error_; }

  // Members that nobody asked for.
  std::vector<std::string_view> unread() const;
  // "stream_options.include_usage"
  std::string full_name(std::string_view name) const;

 private:
  const Json& object_;
  std::string path_;
  std::set<std::string, std::less<>> read_;
  std::optional<Error> error_;
};

}  // namespace pacer::api
