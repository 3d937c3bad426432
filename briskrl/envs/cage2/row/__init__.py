"""How a compiled network lies in memory."""
