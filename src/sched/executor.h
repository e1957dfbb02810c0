// Runs a step: the seam between deciding and computing. Real (runner/model_executor), scripted
// (tests), simulated.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "base/result.h"
#include "base/token.h"
#include "sched/sequence.h"

namespace pacer::sched {

// Tokens [first, first + count) of a sequence, whose keys and values go into its blocks.
struct StepItem {
  const Sequence* sequence;
  uint32_t first;
  uint32_t count;
  bool sample;  // these are its last pending tokens: choose the next one
};

struct StepResult {
  // One for each item with `sample`, in the order of the items. Nothing: the logits were no numbers
  // (NaN, infinity), and that sequence must be ended.
  std::vector<std::optional<SampledToken>> tokens;
};

class Executor {
 public:
  virtual ~Executor() = default;
  // An Error fails every sequence of the step, not the engine.
  virtual Result<StepResult> run(std::span<const StepItem> items) = 0;
};

}  // namespace pacer::sched
