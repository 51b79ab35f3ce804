"""Taps: each file patches one thing of torch and gives the undo that restores it by identity."""
