// Writes and reads the packed layout of packed_layout.h: one code for all wide tiers, compiled for
// baseline x86-64. At load time; unpack_row also for embedding look-ups.
//
// The contract of each function stands in kernel_table.h.
#pragma once

#include "kernels/args.h"

namespace pacer::kernels::packed {

size_t packed_bytes(WeightFormat format, uint32_t rows, uint32_t columns);
void pack(const PackArgs& args);
void unpack_row(WeightFormat format, const void* packed, uint32_t rows, uint32_t columns,
                uint32_t row, float* out);

}  // namespace pacer::kernels::packed
