"""Compiled versions of Gymnasium's own environments, bit-identical to the originals.

`env.py` is the vector environment and `kernels/step.py` its loop over a batch, with NumPy's random
numbers. Each environment has one file of kernels and one, like `cartpole.py`, that describes the
original. `registry.py` lists them. `equivalence.py` plays a compiled version against the original
before it is used; a version that differs in any bit is not used.
"""
