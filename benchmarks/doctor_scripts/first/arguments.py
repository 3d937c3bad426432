"""Flags that the scripts of this folder share."""

import argparse


def parse_args(doc, *, steps):
    parser = argparse.ArgumentParser(description=doc)
    parser.add_argument("--steps", type=int, default=steps, help="environment steps")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--fixed", action="store_true", help="without the fault")
    return parser.parse_args()
