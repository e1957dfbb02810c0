// pacer inspect: what is in a GGUF file, or what this machine can do.
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <memory>

#include "base/human.h"
#include "base/log.h"
#include "cli/commands.h"
#include "cli/model_source.h"
#include "gguf/cursor.h"  // shown
#include "gguf/file.h"
#include "kernels/kernel_table.h"
#include "kernels/machine_peaks.h"
#include "model/model.h"
#include "model/registry.h"
#include "sys/cpu_features.h"
#include "sys/memory.h"
#include "sys/thread_pool.h"

namespace pacer::cli {

namespace {

struct InspectFlags {
  std::string path;
  bool machine = false;
  bool tensors = false;
};

// Metadata values as one line: long strings and arrays are cut and say how long they are.
struct ValueText {
  static constexpr size_t kTextMax = 80;
  static constexpr size_t kItemsMax = 4;

  std::string operator()(bool value) const { return value ? "true" : "false"; }
  std::string operator()(uint64_t value) const { return fmt::format("{}", value); }
  std::string operator()(int64_t value) const { return fmt::format("{}", value); }
  std::string operator()(double value) const { return fmt::format("{:g}", value); }
  std::string operator()(std::string_view value) const {
    std::string text;
    for (const char c : value.substr(0, kTextMax)) {
      // Control characters of a file do not reach the terminal.
      text += static_cast<unsigned char>(c) < 0x20 || c == 0x7f ? ' ' : c;
    }
    return value.size() <= kTextMax ? text : fmt::format("{}... ({} bytes)", text, value.size());
  }
  template <class T>
  std::string operator()(const std::vector<T>& values) const {
    std::string text;
    for (size_t i = 0; i < std::min(values.size(), kItemsMax); ++i) {
      text += (i > 0 ? ", " : "") + (*this)(T(values[i]));
    }
    return fmt::format("[{}{}] ({} values)", text, values.size() > kItemsMax ? ", ..." : "",
                       values.size());
  }
};

void print_tensors(const gguf::File& file) {
  fmt::print("\ntensors:\n");
  for (const gguf::TensorInfo& tensor : file.tensors()) {
    fmt::print("  {:<32} {:<5} [{}]\n", gguf::shown(tensor.name),
               tensor::dtype_info(tensor.dtype)->name, fmt::join(tensor.shape, ", "));
  }
}

void print_formats(const gguf::File& file) {
  struct Share {
    uint64_t tensors = 0, values = 0, bytes = 0;
  };
  std::map<std::string_view, Share> shares;
  uint64_t values_total = 0;
  for (const gguf::TensorInfo& tensor : file.tensors()) {
    uint64_t values = 1;
    for (const uint64_t n : tensor.shape) values *= n;
    Share& share = shares[tensor::dtype_info(tensor.dtype)->name];
    share.tensors += 1;
    share.values += values;
    share.bytes += tensor.data.size();
    values_total += values;
  }
  fmt::print("\n{} tensors, {:.1f} M parameters\n", file.tensors().size(),
             static_cast<double>(values_total) / 1e6);
  for (const auto& [name, share] : shares) {
    fmt::print("  {:<5} {:>5} tensors {:>9.1f} M values {:>10}\n", name, share.tensors,
               static_cast<double>(share.values) / 1e6, human_bytes(share.bytes));
  }
}

void print_servable(const model::ModelConfig& config) {
  const uint64_t kv_token_bytes =
      uint64_t{2} * config.layers * config.kv_values() * sizeof(uint16_t);
  const std::string experts =
      config.experts == 0 ? ""
                          : fmt::format(", {} of {} experts", config.experts_used, config.experts);
  fmt::print(
      "\nservable: {} layers, {} heads sharing {} key-value heads of {}{}, {} of KV cache a "
      "token\n",
      config.layers, config.heads, config.kv_heads, config.head_dim, experts,
      human_bytes(kv_token_bytes));
}

Status inspect_file(const InspectFlags& flags) {
  ASSIGN_OR_RETURN(const std::string path, resolve_model(flags.path));
  ASSIGN_OR_RETURN(const gguf::File file, gguf::File::open(path));
  const std::string shards =
      file.shard_count() > 1 ? fmt::format(" in {} shards", file.shard_count()) : "";
  fmt::print("{}: GGUF v{}, {}{}\n\n", path, file.version(), human_bytes(file.size_bytes()),
             shards);
  for (const auto& [key, value] : file.metadata())
    fmt::print("  {:<40} {}\n", gguf::shown(key), std::visit(ValueText{}, value));
  print_formats(file);
  if (flags.tensors) print_tensors(file);

  ASSIGN_OR_RETURN(const kernels::KernelTable* kernels, kernels::choose_kernels());
  if (const Status servable = model::Model::check(file, *kernels); !servable) {
    fmt::print("\nnot servable: {}\n", servable.error().message);
    return Ok{};
  }
  ASSIGN_OR_RETURN(const model::Architecture* architecture, model::find_architecture(file));
  ASSIGN_OR_RETURN(const model::ModelConfig config, architecture->read_config(file, 0));
  print_servable(config);
  return Ok{};
}

Status inspect_machine() {
  const sys::CpuFeatures& cpu = sys::cpu_features();
  const sys::CpuLimits cores = sys::cpu_limits();
  const sys::MemoryLimits memory = sys::memory_limits();
  ASSIGN_OR_RETURN(const kernels::KernelTable* chosen, kernels::choose_kernels());
  std::string tiers;
  for (const kernels::KernelTable* table : kernels::supported_kernels()) {
    tiers += std::string(tiers.empty() ? "" : ", ") + table->name;
  }
  fmt::print("cpu               {}\n", cpu.model_name);
  fmt::print("features          {}{}{}{}{}{}\n", cpu.avx2 ? "AVX2 " : "",
             cpu.avx512 ? "AVX-512 " : "", cpu.avx512_vnni ? "VNNI " : "",
             cpu.avx512_bf16 ? "BF16 " : "", cpu.amx_int8 ? "AMX-INT8 " : "",
             cpu.amx_bf16 ? "AMX-BF16" : "");
  fmt::print("kernel tier       {} (this machine runs: {})\n", chosen->name, tiers);
  fmt::print(
      "cores             {}{}\n", cores.cores,
      cores.cgroup_cpus > 0 ? fmt::format(", cgroup quota {:.2f} CPUs", cores.cgroup_cpus) : "");
  fmt::print("threads           {}\n", cores.threads);
  fmt::print("memory            {} in all ({}), {} available\n", human_bytes(memory.total_bytes),
             memory.limited_by, human_bytes(memory.available_bytes));

  sys::ThreadPool pool(std::min(cores.threads, 1024u));
  const kernels::MachinePeaks peaks = kernels::measure_machine_peaks(pool);
  fmt::print("\nmeasured on {} threads:\n", pool.thread_count());
  fmt::print("  read bandwidth  {:.1f} GB/s ({} pages)\n", peaks.read_bytes_per_s / 1e9,
             peaks.huge_pages ? "huge" : "4 KiB");
  fmt::print("  int8 peak       {:.2f} TOP/s ({})\n", peaks.int8_ops_per_s / 1e12, peaks.int8_unit);
  fmt::print("  bf16 peak       {:.2f} TFLOP/s ({})\n", peaks.bf16_flops_per_s / 1e12,
             peaks.bf16_unit);
  fmt::print("  f32 peak        {:.2f} TFLOP/s ({})\n", peaks.f32_flops_per_s / 1e12,
             peaks.f32_unit);
  return Ok{};
}

Status inspect(const InspectFlags& flags) {
  if (flags.machine) return inspect_machine();
  if (flags.path.empty()) return error(Code::kInvalidArgument, "give a GGUF file, or --machine");
  return inspect_file(flags);
}

}  // namespace

void add_inspect(CLI::App& app, int* exit_code) {
  auto flags = std::make_shared<InspectFlags>();
  CLI::App* command =
      app.add_subcommand("inspect", "show what is in a GGUF file, or what this machine can do");
  command->add_option("model", flags->path, kModelHelp)->type_name("MODEL");
  command->add_flag(
      "--machine", flags->machine,
      "kernel tier, cores, memory; read bandwidth and int8/bf16 peak as measured now");
  command->add_flag("--tensors", flags->tensors, "list every tensor too");
  command->callback([flags, exit_code] {
    if (const Status status = inspect(*flags); !status) {
      log::error("{}", status.error().message);
      *exit_code = EXIT_FAILURE;
    }
  });
}

}  // namespace pacer::cli
