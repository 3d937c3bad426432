"""Every chunk of a queue is taken once, by its own lane first."""

from __future__ import annotations

import threading

import numpy as np
import pytest

from briskrl.compiler.atomics import fetch_add
from briskrl.compiler.jit import kernel
from briskrl.parallel.kernels import queue as queues


@kernel
def take(queue, lane):
    return queues.take_chunk(queue, lane)


@kernel
def refill(queue):
    queues.refill(queue)


@kernel
def take_all(queue, lane, seen):
    chunk = queues.take_chunk(queue, lane)
    while chunk >= 0:
        fetch_add(seen, chunk, 1)
        queues.finish_chunk(queue)
        chunk = queues.take_chunk(queue, lane)
    queues.wait_for_chunks(queue)


def test_a_new_queue_is_empty_until_it_is_refilled():
    queue = queues.new_queue(2, 4)
    assert take(queue, 0) == take(queue, 1) == -1
    refill(queue)
    assert take(queue, 0) == 0


def test_a_thread_takes_its_own_chunks_first_and_then_those_of_others():
    queue = queues.new_queue(3, 7)
    refill(queue)
    assert [take(queue, 1) for _ in range(8)] == [2, 3, 4, 5, 6, 0, 1, -1]


@pytest.mark.parametrize(("lanes", "chunks"), [(1, 1), (2, 5), (4, 1000)])
def test_threads_take_every_chunk_once_and_return_when_all_are_done(lanes, chunks):
    queue, seen = queues.new_queue(lanes, chunks), np.zeros(chunks, np.int64)
    take_all(queues.new_queue(1, 0), 0, seen)
    for round_ in range(1, 20):
        refill(queue)
        threads = [
            threading.Thread(target=take_all, args=(queue, lane, seen)) for lane in range(1, lanes)
        ]
        for thread in threads:
            thread.start()
        take_all(queue, 0, seen)
        assert (seen == round_).all()
        for thread in threads:
            thread.join()


def test_parts_are_taken_in_order():
    queue = queues.new_queue(1, 0)
    for parts in (3, 0, 5):
        queues.set_parts(queue, parts)
        assert [take(queue, 0) for _ in range(parts + 1)] == [*range(parts), -1]
