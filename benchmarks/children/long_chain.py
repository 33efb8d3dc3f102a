"""Build, sweep and free one chain of recorded multiplications: long_chain.py MODULE ENTRIES.

Run under a small stack limit, it dies if any of the three recurses. Prints seconds per entry.
"""

import importlib
import json
import sys
import time

torch = importlib.import_module(sys.argv[1])
entries = int(sys.argv[2])

w = torch.ones(4).requires_grad_()
gradient = torch.ones(4)
y = w
marks = [time.perf_counter()]
for _ in range(entries):
    y = y * w
marks.append(time.perf_counter())
y.backward(gradient)
marks.append(time.perf_counter())
y = None
marks.append(time.perf_counter())

# d(w^(n+1))/dw at w = 1; float32 sums of ones are exact up to 2^24.
expected = [float(entries + 1)] * 4
if w.grad.tolist() != expected:
    sys.exit(f"long_chain: expected the gradient {expected}, got {w.grad.tolist()}")
phases = zip(("build", "sweep", "free"), marks[:-1], marks[1:], strict=True)
print(json.dumps({name: (end - start) / entries for name, start, end in phases}))
