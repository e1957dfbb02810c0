// The latency objective: bounds on what one request may feel, and the share of requests that must
// meet them.
//
// The words are those of docs/metrics.md: TTFT is arrival to first token, TPOT the mean gap after
// it, E2E arrival to last token. Goodput counts requests for which met() holds; errors and
// rejections are misses, which the caller counts.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/result.h"

namespace pacer::metrics {

// What one finished request felt.
struct RequestTimes {
  Duration ttft{};     // arrival to first token
  Duration e2e{};      // arrival to last token
  Duration itl_max{};  // greatest gap between two successive tokens; 0 for one token
  uint32_t output_tokens = 0;
};

// (last token - first token) / (tokens - 1); nothing for fewer than two tokens.
std::optional<Duration> tpot(const RequestTimes& times);

struct Slo {
  std::optional<Duration> ttft{};
  std::optional<Duration> tpot{};
  std::optional<Duration> e2e{};
  std::optional<Duration> itl_max{};
  double percentile = 95.0;  // (0, 100]: the share of requests that must meet the bounds

  // Every bound that is set is kept; a bound is inclusive. One token has no TPOT, which counts as
  // met. No token at all is a miss.
  bool met(const RequestTimes& times) const;
};

// "ttft=500ms,tpot=50ms,p=99": keys ttft, tpot, e2e, itl (each a number with us, ms or s) and p;
// any order, each once, at least one bound.
Result<Slo> parse_slo(std::string_view text);

// The same syntax back: to_string(*parse_slo(text)) parses to the same Slo.
std::string to_string(const Slo& slo);

}  // namespace pacer::metrics
