"""Known causes of slow scripts: how each one shows in a recording, and how to remove it."""
