"""Scripts that train or step with one library each, in a process of their own.

Each script runs in the Python that has its library installed. That Python does not need briskrl, so
a script imports only the standard library, its own library and `runner_protocol` beside it.
"""
