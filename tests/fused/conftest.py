from __future__ import annotations

import torch

# Spinning threads take cores from tests that run at the same time.
torch.set_num_threads(1)
