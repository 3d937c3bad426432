"""Reports of runs and sweeps as one self-contained page each."""
