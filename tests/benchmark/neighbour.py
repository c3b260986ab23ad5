"""Another tenant of the first GPU: large matrix products for a share of every second."""

import sys
import time

import torch

share = float(sys.argv[1])
matrix = torch.randn((8192, 8192), dtype=torch.float16, device="cuda:0")
while True:
    started = time.monotonic()
    while time.monotonic() - started < share:
        torch.matmul(matrix, matrix)
        torch.cuda.synchronize()
    time.sleep(1.0 - share)
