"""Compiled waiting, the queue of chunks and the loop of a native worker."""
