// Kernels of codings: how values that the tape saved are kept in fewer bytes, and read again. All operands
// are contiguous; codes are bytes (uint8).
#pragma once

#include "core/op.h"

namespace tapegrad::cpu {

// Of a run of floats: codes, scales, and how many blocks cannot be scaled. Bits (8 or 4), block, seed,
// counter.
void quantize(const OpCall& call);
void unscaled_blocks(const OpCall& call);  // of values and scales: those blocks; block
void dequantize(const OpCall& call);       // of codes, scales, and those blocks if any; bits, block

// Where the first element lies that is not the first one, and whether there is a third value:
// two int64; -1 for none.
void two_values(const OpCall& call);
void pack_bits(const OpCall& call);    // the element (by its bits) that is one
void unpack_bits(const OpCall& call);  // the bits of elements that stand for zero and one

void integer_range(const OpCall& call);      // least and most, int64
void narrow_integers(const OpCall& call);    // least, bytes
void widen_integers(const OpCall& call);     // the same
void round_to_bfloat16(const OpCall& call);  // codes, and how many are beyond the range

// The places of maxima in their windows. Input and output sizes, kernel, stride, padding, dilation (three
// each), adaptive. Second output of the first: how many lie outside their window.
void pack_places(const OpCall& call);
void unpack_places(const OpCall& call);

}  // namespace tapegrad::cpu
