"""Arguments and clock of the scripts in this folder."""

import argparse
import time


def parse(steps):
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=steps)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--fixed", action="store_true")
    return parser.parse_args(), time.perf_counter()


def finish(steps, begin):
    print(f"{steps} steps in {time.perf_counter() - begin:.2f} s")
