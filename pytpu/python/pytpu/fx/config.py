"""`torch.fx.config`: settings of interpreters and tracers."""

#: Hide the progress of interpreters. There is no progress bar here, so showing it changes nothing.
disable_progress = True

#: Show the names of nodes in the progress.
verbose_progress = False

#: Record no stack traces, even if a tracer asks for them.
do_not_emit_stack_traces = False
