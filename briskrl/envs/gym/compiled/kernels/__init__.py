"""Compiled steps of Gymnasium environments."""
