"""Other libraries' training loops as processes of their own, in whatever Python has the library.

The files here are run as scripts by that Python, which need not have anything of ours installed:
they import the standard library, their library, and `orders` beside them.
"""
