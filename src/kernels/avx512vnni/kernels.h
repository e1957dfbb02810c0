// The AVX-512 tier of CPUs with VNNI: what differs from kernels/avx512, the quantised gemm.
//
// A folder of its own, as the other must not be compiled with these flags: the compiler would use
// VNNI wherever it likes.
#pragma once

#include "kernels/args.h"

namespace pacer::kernels::avx512vnni {

void gemm(const GemmArgs& args);

}  // namespace pacer::kernels::avx512vnni
