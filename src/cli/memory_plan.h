// What a server will need of memory, added up before any of it is allocated.
//
// The limit is the smallest of --max-memory, every cgroup above this process and the machine. A
// refusal names each part and the flag that makes it smaller: the alternative is a process that is
// killed in the middle of a request.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/result.h"
#include "gguf/file.h"
#include "kernels/kernel_table.h"
#include "model/model.h"
#include "sys/memory.h"

namespace pacer::cli {

struct MemoryNeeds {
  uint64_t weights_bytes = 0;
  uint64_t scratch_bytes = 0;  // of a step: grows with its tokens and rows
  uint64_t bodies_bytes = 0;   // that HTTP may take for the bodies of requests
};

struct MemoryLimit {
  uint64_t bytes = 0;
  std::string limited_by;
};

// What --max-memory allows, if the machine has it.
MemoryLimit memory_limit(const sys::MemoryLimits& machine, std::optional<uint64_t> max_memory);

// What the packed weights will take: the tier's layout of every tensor.
uint64_t packed_weights_bytes(const gguf::File& file, const kernels::KernelTable& kernels);

// An estimate from above of what a step's activations and logits take.
uint64_t scratch_bytes(const model::ModelConfig& config, const model::BatchLimits& limits,
                       uint32_t workers);

// The KV budget: what was asked, or 2 GiB, at most half of what the other parts leave.
Result<uint64_t> plan_kv_bytes(const MemoryNeeds& needs, const MemoryLimit& limit,
                               std::optional<uint64_t> asked);

}  // namespace pacer::cli
