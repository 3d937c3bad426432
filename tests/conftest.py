"""Property tests draw the same examples every time, so that a green suite stays green.

Set HYPOTHESIS_PROFILE=explore to draw new ones, when looking for what nobody thought of.
"""

from __future__ import annotations

import os
import signal

from hypothesis import settings

settings.register_profile("repeatable", derandomize=True, deadline=None)
settings.register_profile("explore", deadline=None)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "repeatable"))

# Under nohup SIGHUP is ignored, and in background jobs of scripts SIGINT, which the processes that
# tests start would inherit.
signal.signal(signal.SIGHUP, signal.SIG_DFL)
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
