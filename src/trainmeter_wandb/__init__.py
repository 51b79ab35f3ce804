"""Weights & Biases adapter."""
