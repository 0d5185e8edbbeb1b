"""The functions behind the modules, by kind. `pytpu.nn.functional` has them all."""
