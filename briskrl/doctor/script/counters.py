"""Figures of a script for its report, and what the doctor could not see in it."""

from __future__ import annotations

from collections.abc import Iterator

from briskrl.core.cpu import usable_cores
from briskrl.core.format import format_count, format_figures, format_percent
from briskrl.doctor.script.observed import Observed
from briskrl.doctor.script.recording import Recording


def counters(
    seen: Observed, *, threads: int, workers: int, growth: str
) -> Iterator[tuple[str, str]]:
    """Names and values, the most important first.

    Args:
        seen: The script.
        threads: Most threads at a time.
        workers: Most processes that it has started, at a time.
        growth: How fast memory grows, and where; empty if it does not.
    """
    if seen.steps:
        yield from _step_counters(seen)
    if seen.updates:
        yield (
            "updates",
            f"{format_count(seen.updates)}, {format_figures(seen.updates_per_step)} per transition",
        )
    if seen.batch_size is not None:
        yield "batch size", f"{seen.batch_size:,}"
    if seen.act_rows is not None:
        yield "observations per action choice", f"{seen.act_rows:,}"
    torch_threads = seen.state.get("torch_threads")
    of_torch = f", torch uses {torch_threads}" if torch_threads is not None else ""
    yield "threads", f"{threads} on {usable_cores()} cores{of_torch}"
    if workers:
        yield "worker processes", f"{workers}"
    if seen.windows:
        first, last = seen.windows[0].rss_mb, seen.windows[-1].rss_mb
        yield "memory", f"{first:,.0f} MB at the first step, {last:,.0f} MB at the end"
    if growth:
        yield "memory growth", growth
    if seen.collecting > 0.01:
        yield "garbage collection", f"{format_percent(seen.collecting)} of the time"


def _step_counters(seen: Observed) -> Iterator[tuple[str, str]]:
    yield "environments", f"{seen.num_envs:,}"
    yield "environment steps", f"{format_count(seen.steps)} transitions in {seen.calls:,} calls"
    length = f", {seen.steps / seen.episodes:.1f} steps per episode" if seen.episodes else ""
    yield "episodes", f"{seen.episodes:,}{length}"


def unseen(seen: Observed, recording: Recording, *, workers: int) -> Iterator[str]:
    """What could not be counted or named, and why."""
    versions = seen.state.get("versions")
    loaded = set(versions) if isinstance(versions, dict) else set()
    if not seen.steps:
        yield (
            "no environment steps: no class with a `step` that returns observation, reward and "
            "end was called in this process"
        )
        if workers:
            yield (
                "other programs: the command started some, which are not watched; if one of them "
                "trains, name the training script itself"
            )
    if not seen.updates and "torch" not in loaded:
        found = sorted(loaded & {"jax", "keras", "tensorflow"})
        name = " and ".join(found) if found else "NumPy or other code"
        yield f"updates: only optimizers of torch are counted, this script learns with {name}"
    elsewhere = seen.state.get("elsewhere")
    places = elsewhere if isinstance(elsewhere, dict) else {}
    if places.get("steps"):
        yield (
            "the main thread: the loop runs in another thread, whose stacks are seen where it "
            "gives up the lock of the interpreter, so shares are less exact"
        )
    if places.get("updates"):
        yield "code that learns: updates are made in another thread than environment steps"
    if recording.end_reason == "SIGPROF":
        yield "everything after the script set a handler of its own for SIGPROF"
    if recording.errors:
        yield f"ticks that failed: {recording.errors[0]}"
