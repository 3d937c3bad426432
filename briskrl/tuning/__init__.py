"""Find the settings that train fastest on this machine without changing what is learned."""
