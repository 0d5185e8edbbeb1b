"""What in-place ops cost that change one row of a tensor, for a small and a large tensor.

    python benches/writes.py                      # device "cpu" of this library
    TORCH_PY=python3 python benches/writes.py     # PyTorch, in an interpreter that has it, in the same run

A row prints the processor time of a call in microseconds, the least of several calls, for 4 MiB and for 256 MiB. Calls
whose time grows with the tensor touch more than they change. Masks are read whole, so their time may grow. The last
rows make a tensor.
"""

import os
import subprocess
import sys
import time

SMALL, LARGE = 1 << 20, 1 << 26
COLUMNS = 1024


def calls(torch, numel):
    """Return the writes by name. Each writes at most one row of a tensor of `numel` elements."""
    x = torch.zeros(numel).view(-1, COLUMNS)
    at, row = torch.tensor([3]), torch.ones(1, COLUMNS)
    grid = torch.full((1, COLUMNS), 3)
    rows = torch.zeros(x.shape[0], dtype=torch.bool)
    rows[3] = True
    mask = torch.zeros(x.shape, dtype=torch.bool)
    mask[3] = True
    columns, gaps = x.t(), x[:, :8]

    def assign(to, index, value):
        def step():
            to[index] = value

        return step

    return {
        "x[i] = row": assign(x, at, row),
        "x[[3]] = row": assign(x, [3], row),
        "x[3] = row": assign(x, 3, row[0]),
        "x[i, i] = 1": assign(x, (at, at), 1.0),
        "x.t()[:, i] = 1": assign(columns, (slice(None), at), 1.0),
        "x[rows] = 1": assign(x, rows, 1.0),
        "x[rows] = row": assign(x, rows, row),
        "x[mask] = 1": assign(x, mask, 1.0),
        "index_put_ accumulate": lambda: x.index_put_((at,), row, accumulate=True),
        "index_copy_": lambda: x.index_copy_(0, at, row),
        "index_copy_ with gaps": lambda: gaps.index_copy_(0, at, row[:, :8]),
        "index_add_": lambda: x.index_add_(0, at, row, alpha=2),
        "index_fill_": lambda: x.index_fill_(0, at, 1.0),
        "index_reduce_ amax": lambda: x.index_reduce_(0, at, row, "amax"),
        "index_reduce_ mean": lambda: x.index_reduce_(0, at, row, "mean"),
        "scatter_": lambda: x.scatter_(0, grid, row),
        "scatter_ number": lambda: x.scatter_(0, grid, 1.0),
        "scatter_add_": lambda: x.scatter_add_(0, grid, row),
        "scatter_reduce_ prod": lambda: x.scatter_reduce_(0, grid, row, "prod"),
        "scatter_reduce_ mean": lambda: x.scatter_reduce_(0, grid, row, "mean"),
        "put_": lambda: x.put_(at, row[0, :1]),
        "put_ transposed": lambda: columns.put_(at, row[0, :1]),
        "masked_fill_": lambda: x.masked_fill_(mask, 1.0),
        "masked_scatter_": lambda: x.masked_scatter_(mask, row),
        "narrow().copy_": lambda: x.narrow(0, 3, 1).copy_(row),
        "x[3].add_": lambda: x[3].add_(row[0]),
        "x[3].sin_": lambda: x[3].sin_(),
        "x[3].zero_": lambda: x[3].zero_(),
        "x[3].uniform_": lambda: x[3].uniform_(),
        "x[3].clamp_": lambda: x[3].clamp_(0, 1),
        "x[3].lerp_": lambda: x[3].lerp_(row[0], 0.5),
        "x[:4].tril_": lambda: x[:4].tril_(),
        "x[:1].cumsum_": lambda: x[:1].cumsum_(1),
        "x[:1].renorm_": lambda: x[:1].renorm_(2, 0, 1.0),
        "fill_diagonal_": lambda: x.fill_diagonal_(1.0),
        "resize_": lambda: x.resize_(x.shape),
        "t_": lambda: x.t_().t_(),
        "x.data[3].zero_": lambda: x.data[3].zero_(),
        "zeros, kept": lambda: ZEROS.append(torch.zeros(numel)),
    }


ZEROS = []


def measure(torch):
    """Print the least processor time of each call, by name."""
    torch.set_num_threads(1)
    times = [{name: least(call) for name, call in calls(torch, numel).items()} for numel in (SMALL, LARGE)]
    for name, small in times[0].items():
        print(f"{name}\t{small:.1f}\t{times[1][name]:.1f}", flush=True)


def least(call):
    """Return the least processor time of a call in microseconds."""
    call()
    best = float("inf")
    for _ in range(7):
        start = time.process_time()
        call()
        best = min(best, time.process_time() - start)
        ZEROS.clear()
    return best * 1e6


def main():
    """Print a table of all programs."""
    programs = {"pytpu": sys.executable}
    if os.environ.get("TORCH_PY"):
        programs["torch"] = os.environ["TORCH_PY"]
    results = {}
    for name, python in programs.items():
        text = subprocess.run([python, __file__, name], capture_output=True, text=True, check=True).stdout
        for line in text.splitlines():
            call, small, large = line.split("\t")
            results.setdefault(call, []).append(f"{small:>10}{large:>12}")
    print(f"{'microseconds':24}" + "".join(f"{name + ' 4 MiB':>12}{'256 MiB':>10}" for name in programs))
    for call, columns in results.items():
        print(f"{call:24}" + "".join(columns))


if __name__ == "__main__":
    if len(sys.argv) > 1:
        import importlib

        measure(importlib.import_module(sys.argv[1]))
    else:
        main()
