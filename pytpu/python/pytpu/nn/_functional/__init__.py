"""The functions behind the modules, by kind; `pytpu.nn.functional` offers them all."""
