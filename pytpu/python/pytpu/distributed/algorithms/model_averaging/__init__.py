"""Averages of parameters over ranks, for training that communicates rarely."""
