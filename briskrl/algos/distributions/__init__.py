"""Distributions over actions: categorical, Gaussian, ordered subsets."""
