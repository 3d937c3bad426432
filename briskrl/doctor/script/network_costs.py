"""What updates of a network of some size cost on this machine, for other batches and types."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from time import process_time

from briskrl.doctor.script.observed import Observed

MEASURED_S, TIMES = 0.06, 4
LARGEST = 4096
"""Rows of a batch that is measured, at most."""


def layers_of(seen: Observed) -> list[tuple[int, int]]:
    """Sizes of the linear layers that learn."""
    layers = seen.state.get("layers")
    names = layers if isinstance(layers, Mapping) else {}
    sizes = [name.split("x") for name in names]
    return [(int(before), int(after)) for before, after in sizes]


def update_s(layers: list[tuple[int, int]], rows: int, *, double: bool = False) -> float:
    """CPU seconds of one update with Adam of some layers, each on inputs of its own."""
    import torch

    dtype = torch.float64 if double else torch.float32
    with _one_thread():
        nets = [torch.nn.Linear(before, after, dtype=dtype) for before, after in layers]
        inputs = [torch.ones(min(rows, LARGEST), before, dtype=dtype) for before, _ in layers]
        for batch in inputs[1:]:
            # Only the first layer of a network needs no gradient of its inputs.
            batch.requires_grad_()
        optimizer = torch.optim.Adam([p for net in nets for p in net.parameters()], lr=1e-6)

        def update() -> None:
            optimizer.zero_grad()
            outputs = [net(batch).square().mean() for net, batch in zip(nets, inputs, strict=True)]
            torch.stack(outputs).sum().backward()  # type: ignore[no-untyped-call]
            optimizer.step()

        update()
        return min(_series(update) for _ in range(TIMES))


def _series(update: object) -> float:
    assert callable(update)
    calls, begin = 0, process_time()
    while process_time() - begin < MEASURED_S / TIMES:
        update()
        calls += 1
    return (process_time() - begin) / calls


@contextmanager
def _one_thread() -> Iterator[None]:
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)
