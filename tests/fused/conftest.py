from __future__ import annotations

import torch

# Threads that wait for others by spinning take the cores from tests that run beside them.
torch.set_num_threads(1)
