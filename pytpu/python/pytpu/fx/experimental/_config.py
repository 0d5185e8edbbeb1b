"""`torch.fx.experimental._config`: settings."""

#: Record each call of a graph module with the profiler.
enrich_profiler_metadata = False
