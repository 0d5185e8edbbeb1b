"""What a call costs from Python: small tensors, so that parsing, dispatch and freeing are all there is.

python benches/python_calls.py            # nanoseconds a call, the best of many short runs, the loop included
"""

import time
import timeit

started = time.perf_counter()
import pytpu as torch  # noqa: E402  (the import is what is timed)

IMPORT_MS = (time.perf_counter() - started) * 1e3


def main():
    """Prints one line a call."""
    x, y, w = torch.ones(16), torch.ones(16), torch.ones(16, requires_grad=True)
    names = {"torch": torch, "x": x, "y": y, "w": w}
    rows = [
        "x + y",
        "w + y",
        "torch.add(x, y)",
        "x.add(y)",
        "x + 1.0",
        "x.relu()",
        "x[0]",
        "x.view(4, 4)",
        "x.sum()",
        "x.softmax(-1)",
    ]
    print(f"import pytpu             {IMPORT_MS:8.1f} ms")
    for row in rows:
        runs = timeit.repeat(row, globals=names, repeat=200, number=2000)
        print(f"{row:24} {min(runs) / 2000 * 1e9:8.0f} ns")
    if torch.tpu.is_available():
        a, b = x.to("tpu"), y.to("tpu")
        runs = timeit.repeat("a + b", globals={"a": a, "b": b}, repeat=200, number=1000)
        print(f"{'a + b, recorded on tpu':24} {min(runs) / 1000 * 1e9:8.0f} ns")


if __name__ == "__main__":
    main()
