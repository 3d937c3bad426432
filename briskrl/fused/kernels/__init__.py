"""Compiled dense layers, matrix products and Adam."""
