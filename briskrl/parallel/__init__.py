"""Threads that run compiled code side by side.

Compiled code releases the interpreter lock. Threads meet in a mailbox: an int64 array whose
elements compiled code reads and writes atomically.
"""
