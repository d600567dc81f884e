#!/usr/bin/env python3
"""What recording costs a launch of PyTorch: microseconds of each, as one JSON object. usage: launches.py [launches] [--profiler]
With --profiler there is a second figure, of the same launches under PyTorch's own profiler, by CUDA's activities alone."""

import json
import sys
import time

import torch

count = int(sys.argv[1]) if len(sys.argv) > 1 and sys.argv[1].isdigit() else 5000
x = torch.zeros(32, device="cuda")


def launch_us():
    torch.cuda.synchronize()
    began = time.perf_counter()
    for i in range(count):
        x.add_(1)
        if i % 500 == 499:
            torch.cuda.synchronize()
    torch.cuda.synchronize()
    return (time.perf_counter() - began) / count * 1e6


launch_us()  # what the first ones load
made = {"launch_us": min(launch_us() for _ in range(5))}
if "--profiler" in sys.argv:
    times = []
    for _ in range(5):
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]):
            times.append(launch_us())
    made["profiler_us"] = min(times)
print(json.dumps(made))
