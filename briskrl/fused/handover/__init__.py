"""How threads tell one another that there is work, or that it is done."""
