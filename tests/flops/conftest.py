"""Puts this directory on the import path, for `published` in the differential tests too."""
