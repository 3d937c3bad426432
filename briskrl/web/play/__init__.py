"""Agents that play in the page: sessions in the server, and the player process of each."""
