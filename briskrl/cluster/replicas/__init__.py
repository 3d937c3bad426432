"""One run in several processes: their connections, and who starts and watches them."""
