#!/usr/bin/env python3
"""Blocks of every GGUF format and what the `gguf` package (PyPI, tested with 0.19) makes of them.

  python3 tests/tensor/make_dequant_fixture.py > tests/tensor/dequant.txt

A line: format, block as hex, its f32 values as hex (little endian, as in memory). Bytes are random from a fixed
seed; scales take turns through the extremes of f16. Read by src/tensor/dequant_fixture_test.cpp.
"""
import numpy as np
from gguf import GGML_QUANT_SIZES, GGMLQuantizationType, quants

# Where a block has its f16: d, and m or dmin.
F16_OFFSETS = {
    "Q4_0": [0], "Q4_1": [0, 2], "Q5_0": [0], "Q5_1": [0, 2], "Q8_0": [0], "IQ4_NL": [0],
    "Q2_K": [80, 82], "Q3_K": [108], "Q4_K": [0, 2], "Q5_K": [0, 2], "Q6_K": [208], "IQ4_XS": [0],
}
# 1, 0, -0, smallest subnormal, a negative subnormal, a negative one, largest, smallest, something ordinary.
SCALES = [0x3C00, 0x0000, 0x8000, 0x0001, 0x83FF, 0xB555, 0x7BFF, 0xFBFF, 0x1234]


def main() -> None:
    rng = np.random.default_rng(20)
    for name, offsets in F16_OFFSETS.items():
        dtype = GGMLQuantizationType[name]
        _, size = GGML_QUANT_SIZES[dtype]
        count = len(SCALES)
        blocks = rng.integers(0, 256, (count + 2, size), dtype=np.uint8)
        blocks[count] = 0x00  # every code and integer scale at its lowest, then at its highest
        blocks[count + 1] = 0xFF
        for i in range(len(blocks)):
            for k, offset in enumerate(offsets):
                bits = SCALES[(i + 4 * k) % count]
                blocks[i, offset:offset + 2] = np.frombuffer(np.uint16(bits).tobytes(), np.uint8)
        values = quants.dequantize(blocks, dtype)
        assert np.isfinite(values).all()
        for block, row in zip(blocks, values):
            print(name, block.tobytes().hex(), row.astype("<f4").tobytes().hex())


if __name__ == "__main__":
    main()
