"""The doctor: where the time of a training loop goes, what would help, and the proof."""
