#include "metrics/slo.h"

#include <fmt/format.h>

#include <charconv>

namespace pacer::metrics {
namespace {

constexpr std::string_view kSyntax =
    "an SLO reads like 'ttft=500ms,tpot=50ms,p=95' (keys ttft, tpot, e2e, itl, p; units us, ms, s)";

std::string_view trim(std::string_view text) {
  const size_t first = text.find_first_not_of(" \t");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t") - first + 1);
}

// A decimal number at the front of `text`, which loses it. Plain digits only: no sign, "inf" or
// "nan".
std::optional<double> take_number(std::string_view& text) {
  if (text.empty() || text.front() < '0' || text.front() > '9') return std::nullopt;
  double value = 0;
  const auto [end, ec] =
      std::from_chars(text.data(), text.data() + text.size(), value, std::chars_format::fixed);
  if (ec != std::errc()) return std::nullopt;
  text.remove_prefix(static_cast<size_t>(end - text.data()));
  return value;
}

std::optional<double> nanoseconds_per(std::string_view unit) {
  if (unit == "us") return 1e3;
  if (unit == "ms") return 1e6;
  if (unit == "s") return 1e9;
  return std::nullopt;
}

Result<Duration> parse_bound(std::string_view key, std::string_view text) {
  constexpr double kMax = 1e9 * 86400;  // a day; also keeps the cast below in range
  std::string_view rest = text;
  const std::optional<double> number = take_number(rest);
  if (!number)
    return error(Code::kInvalidArgument, "SLO: {}={} is not a duration; {}", key, text, kSyntax);
  const std::optional<double> unit = nanoseconds_per(rest);
  if (!unit) {
    return error(Code::kInvalidArgument, "SLO: {}={} has {} where us, ms or s belongs", key, text,
                 rest.empty() ? "nothing" : fmt::format("'{}'", rest));
  }
  const double ns = *number * *unit;
  if (ns < 1 || ns > kMax) {
    return error(Code::kInvalidArgument, "SLO: {}={} is outside 1ns to 1 day", key, text);
  }
  return Duration(static_cast<int64_t>(ns + 0.5));
}

Result<double> parse_percentile(std::string_view text) {
  std::string_view rest = text;
  const std::optional<double> number = take_number(rest);
  if (!number || !rest.empty() || *number <= 0 || *number > 100) {
    return error(Code::kInvalidArgument, "SLO: p={} is not a percentile over 0 and up to 100",
                 text);
  }
  return *number;
}

// The member that `key` sets, or nullptr.
std::optional<Duration>* bound_of(Slo& slo, std::string_view key) {
  if (key == "ttft") return &slo.ttft;
  if (key == "tpot") return &slo.tpot;
  if (key == "e2e") return &slo.e2e;
  if (key == "itl") return &slo.itl_max;
  return nullptr;
}

std::string in_greatest_whole_unit(Duration d) {
  const int64_t ns = d.count();
  if (ns % 1'000'000'000 == 0) return fmt::format("{}s", ns / 1'000'000'000);
  if (ns % 1'000'000 == 0) return fmt::format("{}ms", ns / 1'000'000);
  return fmt::format("{}us", static_cast<double>(ns) / 1e3);
}

}  // namespace

std::optional<Duration> tpot(const RequestTimes& times) {
  if (times.output_tokens < 2) return std::nullopt;
  return (times.e2e - times.ttft) / (times.output_tokens - 1);
}

bool Slo::met(const RequestTimes& times) const {
  if (times.output_tokens == 0) return false;
  if (ttft && times.ttft > *ttft) return false;
  if (e2e && times.e2e > *e2e) return false;
  if (itl_max && times.itl_max > *itl_max) return false;
  const std::optional<Duration> request_tpot = metrics::tpot(times);
  return !tpot || !request_tpot || *request_tpot <= *tpot;
}

Result<Slo> parse_slo(std::string_view text) {
  Slo slo;
  bool percentile_given = false;
  bool bound_given = false;
  std::string_view rest = text;
  for (bool more = true; more;) {
    const size_t comma = rest.find(',');
    const std::string_view item = trim(rest.substr(0, comma));
    more = comma != std::string_view::npos;
    if (more) rest.remove_prefix(comma + 1);

    const size_t equals = item.find('=');
    if (equals == std::string_view::npos) {
      return error(Code::kInvalidArgument, "SLO '{}': '{}' is not key=value; {}", text, item,
                   kSyntax);
    }
    const std::string_view key = trim(item.substr(0, equals));
    const std::string_view value = trim(item.substr(equals + 1));
    std::optional<Duration>* bound = bound_of(slo, key);
    if (key != "p" && bound == nullptr) {
      return error(Code::kInvalidArgument, "SLO '{}': there is no key '{}'; {}", text, key,
                   kSyntax);
    }
    if (key == "p" ? percentile_given : bound->has_value()) {
      return error(Code::kInvalidArgument, "SLO '{}': '{}' is given twice", text, key);
    }
    if (key == "p") {
      ASSIGN_OR_RETURN(slo.percentile, parse_percentile(value));
      percentile_given = true;
    } else {
      ASSIGN_OR_RETURN(*bound, parse_bound(key, value));
      bound_given = true;
    }
  }
  if (!bound_given) {
    return error(Code::kInvalidArgument, "SLO '{}' bounds nothing; {}", text, kSyntax);
  }
  return slo;
}

std::string to_string(const Slo& slo) {
  std::string out;
  const auto add = [&](std::string_view key, const std::optional<Duration>& bound) {
    if (bound) out += fmt::format("{}={},", key, in_greatest_whole_unit(*bound));
  };
  add("ttft", slo.ttft);
  add("tpot", slo.tpot);
  add("e2e", slo.e2e);
  add("itl", slo.itl_max);
  return out + fmt::format("p={}", slo.percentile);
}

}  // namespace pacer::metrics
