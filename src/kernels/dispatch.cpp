// Which tier runs: the best that CPU and OS allow, or the one that PACER_ISA names.

#include <cstdlib>
#include <string>
#include <vector>

#include "kernels/avx2/table.h"
#include "kernels/avx512/table.h"
#include "kernels/kernel_table.h"
#include "kernels/scalar/table.h"
#include "sys/cpu_features.h"

namespace pacer::kernels {

namespace {

struct Tier {
  const KernelTable* table;
  bool (*runs_on)(const sys::CpuFeatures& cpu);
};

// Best first. A new tier is a line here.
constexpr Tier kTiers[] = {
    {&avx512::kTable, [](const sys::CpuFeatures& cpu) { return cpu.avx512_vnni; }},
    {&avx512::kTableWithoutVnni, [](const sys::CpuFeatures& cpu) { return cpu.avx512; }},
    {&avx2::kTable, [](const sys::CpuFeatures& cpu) { return cpu.avx2; }},
    {&scalar::kTable, [](const sys::CpuFeatures&) { return true; }},
};

std::vector<const KernelTable*> detect() {
  std::vector<const KernelTable*> tables;
  for (const Tier& tier : kTiers) {
    if (tier.runs_on(sys::cpu_features())) tables.push_back(tier.table);
  }
  return tables;
}

std::string names_of(std::span<const KernelTable* const> tables) {
  std::string names;
  for (const KernelTable* table : tables) {
    if (!names.empty()) names += ", ";
    names += table->name;
  }
  return names;
}

const KernelTable* find(std::string_view name, std::span<const KernelTable* const> tables) {
  for (const KernelTable* table : tables) {
    if (name == table->name) return table;
  }
  return nullptr;
}

bool is_a_tier(std::string_view name) {
  for (const Tier& tier : kTiers) {
    if (name == tier.table->name) return true;
  }
  return false;
}

}  // namespace

std::span<const KernelTable* const> supported_kernels() {
  static const std::vector<const KernelTable*> tables = detect();
  return tables;
}

Result<const KernelTable*> choose_kernels() {
  return choose_kernels(std::getenv("PACER_ISA"), supported_kernels());
}

Result<const KernelTable*> choose_kernels(const char* name,
                                          std::span<const KernelTable* const> supported) {
  if (name == nullptr || *name == '\0') return supported.front();
  if (const KernelTable* table = find(name, supported)) return table;
  if (std::string_view(name) == avx512::kTable.name) {
    // Whoever asks for AVX-512 means what this CPU has of it.
    if (const KernelTable* table = find(avx512::kTableWithoutVnni.name, supported)) return table;
  }
  if (is_a_tier(name)) {
    return error(Code::kUnsupported,
                 "PACER_ISA={} is not supported by this machine; it supports {}", name,
                 names_of(supported));
  }
  return error(Code::kInvalidArgument,
               "PACER_ISA={} is not a kernel tier; this machine supports {}", name,
               names_of(supported));
}

Result<WeightFormat> weight_format(tensor::DType dtype) {
  switch (dtype) {
    case tensor::DType::kF32:
      return WeightFormat::kF32;
    case tensor::DType::kF16:
      return WeightFormat::kF16;
    case tensor::DType::kBF16:
      return WeightFormat::kBF16;
    case tensor::DType::kQ4_0:
      return WeightFormat::kQ4_0;
    case tensor::DType::kQ4_1:
      return WeightFormat::kQ4_1;
    case tensor::DType::kQ5_0:
      return WeightFormat::kQ5_0;
    case tensor::DType::kQ5_1:
      return WeightFormat::kQ5_1;
    case tensor::DType::kQ8_0:
      return WeightFormat::kQ8_0;
    case tensor::DType::kQ2K:
      return WeightFormat::kQ2K;
    case tensor::DType::kQ3K:
      return WeightFormat::kQ3K;
    case tensor::DType::kQ4K:
      return WeightFormat::kQ4K;
    case tensor::DType::kQ5K:
      return WeightFormat::kQ5K;
    case tensor::DType::kQ6K:
      return WeightFormat::kQ6K;
    case tensor::DType::kIQ4NL:
      return WeightFormat::kIQ4NL;
    case tensor::DType::kIQ4XS:
      return WeightFormat::kIQ4XS;
  }
  return error(Code::kUnsupported,
               "weights of type {} cannot be multiplied; supported are F32, F16, BF16, Q4_0, Q4_1, "
               "Q5_0, Q5_1, Q8_0, Q2_K, Q3_K, Q4_K, Q5_K, Q6_K, IQ4_NL, IQ4_XS",
               tensor::ggml_type_name(static_cast<uint32_t>(dtype)));
}

}  // namespace pacer::kernels
