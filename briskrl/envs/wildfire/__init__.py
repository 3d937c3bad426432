"""Fuel breaks against wildfires: many landscapes, many fires, one compiled call per step."""
