// Ceilings of AMX: int8 and bf16 tile products on registers; and of AVX512_BF16. Timed by
// machine_peaks.cpp.
//
// Tiles 0-3 collect, tiles 4-5 times tiles 6-7: the 2 x 2 blocking that a real kernel uses, without
// its loads.

#include "kernels/peak_loops.h"

#include <immintrin.h>

namespace pacer::kernels::amx {

namespace {

// The 64 bytes that ldtilecfg reads. Source: Intel SDM, volume 2, LDTILECFG.
struct alignas(64) TileConfig {
  uint8_t palette;
  uint8_t start_row;
  uint8_t reserved[14];
  uint16_t row_bytes[16];
  uint8_t rows[16];
};

// All eight tiles at 16 rows of 64 bytes, zeroed. Zero data does not make the register loop faster
// (measured).
void set_up_tiles() {
  TileConfig config = {};
  config.palette = 1;
  for (uint32_t i = 0; i < 8; ++i) {
    config.row_bytes[i] = 64;
    config.rows[i] = 16;
  }
  // gcc 12 believes that ldtilecfg reads 8 bytes and drops the other stores; this says that all are
  // read.
  asm volatile("" : : "r"(&config) : "memory");
  _tile_loadconfig(&config);
  _tile_zero(4);
  _tile_zero(5);
  _tile_zero(6);
  _tile_zero(7);
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
}

}  // namespace

uint64_t peak_int8(uint64_t rounds) {
  set_up_tiles();
  for (uint64_t i = 0; i < rounds; ++i) {
    _tile_dpbssd(0, 4, 6);
    _tile_dpbssd(1, 4, 7);
    _tile_dpbssd(2, 5, 6);
    _tile_dpbssd(3, 5, 7);
  }
  _tile_release();
  return rounds * 4 * (16 * 16 * 64) * 2;
}

uint64_t peak_bf16(uint64_t rounds) {
  set_up_tiles();
  for (uint64_t i = 0; i < rounds; ++i) {
    _tile_dpbf16ps(0, 4, 6);
    _tile_dpbf16ps(1, 4, 7);
    _tile_dpbf16ps(2, 5, 6);
    _tile_dpbf16ps(3, 5, 7);
  }
  _tile_release();
  return rounds * 4 * (16 * 16 * 32) * 2;
}

uint64_t peak_avx512_bf16(uint64_t rounds) {
  __m512 sum[12];
#pragma GCC unroll 12
  for (uint32_t j = 0; j < 12; ++j) sum[j] = _mm512_setzero_ps();
  const __m512bh a = _mm512_cvtne2ps_pbh(_mm512_set1_ps(0.5f), _mm512_set1_ps(0.25f));
  for (uint64_t i = 0; i < rounds; ++i) {
#pragma GCC unroll 12
    for (uint32_t j = 0; j < 12; ++j) {
      sum[j] = _mm512_dpbf16_ps(sum[j], a, a);
      asm volatile("" : "+v"(sum[j]));
    }
  }
  return rounds * 12 * 32 * 2;
}

}  // namespace pacer::kernels::amx
