"""What a call of a custom kernel costs beside one of an op of the table: ``python benches/custom_kernels.py``. Needs no
JAX.
"""

import statistics
import time

import pytpu as torch

ROUNDS, CALLS = 15, 2000

TEXT = """func.func public @main(%x: tensor<8xf32>, %y: tensor<8xf32>) -> tensor<8xf32> {
  %0 = stablehlo.add %x, %y : tensor<8xf32>
  return %0 : tensor<8xf32>
}"""


def median_microseconds(call):
    """Return the median time of a call that is recorded and dropped."""
    times = []
    for _ in range(ROUNDS):
        start = time.perf_counter()
        for _ in range(CALLS):
            call()
        times.append((time.perf_counter() - start) / CALLS * 1e6)
        torch.tpu.synchronize()
    return statistics.median(times)


def main():
    """Print a table."""
    add = torch.tpu.stablehlo_op("bench::add", TEXT)
    scaled = torch.tpu.stablehlo_op("bench::scaled", lambda x, y, k: TEXT)
    x, y = torch.ones(8, device="tpu"), torch.ones(8, device="tpu")
    torch.tpu.synchronize()
    rows = {
        "torch.add(x, y)": lambda: torch.add(x, y),
        "custom(x, y)": lambda: add(x, y),
        "custom(x, y, k=1.5)": lambda: scaled(x, y, k=1.5),
        "torch.ops.bench.add(x, y)": lambda: torch.ops.bench.add(x, y),
    }
    # Turns, so that a slow moment of the machine is shared.
    [call() for call in rows.values()]
    found = {name: [] for name in rows}
    for _ in range(3):
        for name, call in rows.items():
            found[name].append(median_microseconds(call))
    for name, times in found.items():
        print(f"{name:28} {min(times):6.2f} us")


if __name__ == "__main__":
    main()
