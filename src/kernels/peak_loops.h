// The inner loops that machine_peaks.cpp times: one file peak.cpp in each ISA folder.
//
// Each runs `rounds` rounds of independent operations on registers (on a buffer, for the reads) and
// returns how many operations (bytes) that was. Plain functions and no std headers, as for kernels.
// Call one only when cpu_features has its unit.
#pragma once

#include <stddef.h>
#include <stdint.h>

namespace pacer::kernels {

namespace scalar {
uint64_t peak_f32(uint64_t rounds);   // SSE2 multiply and add: what baseline x86-64 has
uint64_t peak_int8(uint64_t rounds);  // SSE2 16-bit multiply-add, since there is no 8-bit one
uint64_t read_all(const void* buffer, size_t bytes);
}  // namespace scalar

namespace avx2 {
uint64_t peak_f32(uint64_t rounds);
uint64_t peak_int8(uint64_t rounds);  // maddubs + madd + add, as the kernels use them
uint64_t read_all(const void* buffer, size_t bytes);
}  // namespace avx2

namespace avx512 {
uint64_t peak_f32(uint64_t rounds);
}  // namespace avx512

namespace avx512vnni {
uint64_t peak_int8(uint64_t rounds);
}  // namespace avx512vnni

namespace amx {
uint64_t peak_int8(uint64_t rounds);
uint64_t peak_bf16(uint64_t rounds);
uint64_t peak_avx512_bf16(
    uint64_t rounds);  // AVX512_BF16 needs no tiles, but shares this folder's flags
}  // namespace amx

}  // namespace pacer::kernels
