"""FLOPs conventions: training FLOPs of a batch under each named way of counting."""
