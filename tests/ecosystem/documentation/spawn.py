"""Runs the file that it is told in a spawned process, as data loaders and training scripts start theirs."""

import multiprocessing
import runpy
import sys

if __name__ == "__main__":
    process = multiprocessing.get_context("spawn").Process(target=runpy.run_path, args=(sys.argv[1],))
    process.start()
    process.join()
    sys.exit(process.exitcode)
