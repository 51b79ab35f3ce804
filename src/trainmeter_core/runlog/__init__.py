"""The run directory: its files, the append-only writer and the tolerant reader."""
