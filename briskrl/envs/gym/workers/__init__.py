"""Worker processes that step Gymnasium environments."""
