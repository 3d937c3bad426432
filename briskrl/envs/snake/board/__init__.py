"""How games lie in memory, and work on their bitboards."""
