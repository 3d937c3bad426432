"""Compiled versions of Gymnasium's own environments, equal to them to the bit.

`env.py` is what trainers step, `kernels.py` the loop over all envs of a batch and NumPy's random
numbers. Each environment is a folder: `kernels.py` with its one step, and `stand_in.py` with what
it stands in for. A line in the table of `stand_in.py` here makes it known. `proof.py` plays it
against Gymnasium's before it is used; whatever is not equal to the bit is not used.
"""
