"""How fires spread over a grid: minimum travel times from cell to cell."""
