#!/usr/bin/env python3
"""A training step of a small network by PyTorch, as people write it. usage: training.py [steps] [--hang]"""

import sys
import time

import torch

steps = int(sys.argv[1]) if len(sys.argv) > 1 else 20
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(1024, 4096), torch.nn.ReLU(), torch.nn.Linear(4096, 10)).cuda()
optimizer = torch.optim.AdamW(model.parameters())
batches = [(torch.randn(512, 1024), torch.randint(0, 10, (512,))) for _ in range(4)]
for step in range(steps):
    torch.cuda.nvtx.range_push(f"step {step}")
    x, y = batches[step % len(batches)]
    loss = torch.nn.functional.cross_entropy(model(x.cuda()), y.cuda())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(f"{step} {loss.item():.4f}", flush=True)
    torch.cuda.nvtx.range_pop()
while "--hang" in sys.argv:
    time.sleep(0.1)
