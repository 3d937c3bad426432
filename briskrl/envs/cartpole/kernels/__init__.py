"""Compiled CartPole."""
