"""Snake on a walled board, all games of a batch stepped by one compiled call."""
