#!/usr/bin/env python3
"""Two streams of CuPy's with an event between, and kernels that it compiles itself."""

import cupy

loads, work = cupy.cuda.Stream(non_blocking=True), cupy.cuda.Stream()
with loads:
    x = cupy.arange(1 << 22, dtype=cupy.float32)
    event = loads.record()
work.wait_event(event)
with work:
    y = cupy.sqrt(x) + 1
work.synchronize()
print(float(y[4]))
