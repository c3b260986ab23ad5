"""Another tenant of the card: takes its memory but for some MiB, or computes and pauses in turn."""

import sys
import time

import torch

computes, pauses, left = float(sys.argv[1]), float(sys.argv[2]), int(sys.argv[3])
torch.cuda.init()
held = []
if left:
    free, _ = torch.cuda.mem_get_info()
    held.append(torch.empty(max(0, free - left * 2**20), dtype=torch.uint8, device="cuda"))
matrix = torch.randn((8192, 8192), dtype=torch.bfloat16, device="cuda") if computes else None
print("there", flush=True)
while True:
    started = time.monotonic()
    while time.monotonic() - started < computes:
        for _ in range(4):
            torch.matmul(matrix, matrix)
        torch.cuda.synchronize()
    time.sleep(pauses or 1.0)
