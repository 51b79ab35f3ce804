"""Tests; a package, so that no other of that name can stand in its place."""
