"""Experience memories: preallocated arrays, batched writes, compiled sampling."""
