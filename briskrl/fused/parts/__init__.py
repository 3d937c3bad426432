"""Parts of compiled work, taken by whoever has time."""
