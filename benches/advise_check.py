"""`make advise-check`: costs of single ops by the advisor's own programs, beside the cycles of the same ops written in
JAX.

The numbers of JAX are of jax 0.10.2 and libtpu 0.0.52, the programs plain ones in bfloat16. Each row is compared as a
ratio to the base of its group, since advice compares sizes of one op: ours may differ from JAX's by `TOLERANCE`, and by
`ATTENTION_TOLERANCE` where the two have different programs. Where two rows of JAX differ by more than that, ours have
the same order. Convolutions have their kernels as JAX has them here; as layers store them, (out, in, h, w), those of
16, 32 and 130 channels cost 30 % more.

    python benches/advise_check.py [--topology v5e:2x2] [group ...]
"""

import argparse
import os
import sys

import pytpu as torch
from pytpu.tpu._costs import Attention, Convolution, Costs, Product

TOLERANCE = 0.05
ATTENTION_TOLERANCE = 0.30
V5E, V6E = "v5e:2x2", "v6e:2x2"


def product(rows, k, n, dtype="bfloat16"):
    return Product(rows, k, n, dtype, is_linear=False)


def attention(heads, head_dim):
    return Attention(8, 1024, 1024, heads, heads, head_dim, "bfloat16", is_causal=True, has_gradient=True)


class KernelLastConvolution(Convolution):
    """A convolution whose kernel lies as (h, w, in, out)."""

    def operands(self):
        shapes = (self.batch, *self.size, self.channels), (*self.kernel, self.channels, self.out_channels)
        return [torch.empty(shape, dtype=torch.bfloat16, device="tpu") for shape in shapes]

    def forward(self, x, w):
        return super().forward(x, w.permute(3, 2, 0, 1))


def convolution(channels, out_channels):
    return KernelLastConvolution(
        32, channels, (56, 56), out_channels, (3, 3), "bfloat16", stride=(1, 1), padding=(1, 1), dilation=(1, 1)
    )


# Group: base, and rows of name, op, thousands of cycles for each machine.
GROUPS = {
    "attention, width 768, forward and backward": (
        "heads of 128",
        [
            ("heads of 64", attention(12, 64), {V5E: 8830, V6E: 3650}),
            ("heads of 96", attention(8, 96), {V5E: 6270, V6E: 2560}),
            ("heads of 128", attention(6, 128), {V5E: 4580, V6E: 1950}),
            ("heads of 256", attention(3, 256), {V5E: 1830, V6E: 890}),
        ],
    ),
    "product 8192 x n x n": (
        "n = 1024",
        [
            ("n = 1000", product(8192, 1000, 1000), {V5E: 146, V6E: 73}),
            ("n = 1024", product(8192, 1024, 1024), {V5E: 149, V6E: 75}),
            ("n = 1025", product(8192, 1025, 1025), {V5E: 168, V6E: 78}),
            ("n = 1152", product(8192, 1152, 1152), {V5E: 186, V6E: 86}),
        ],
    ),
    "narrow product 8192 x n x n": (
        "n = 128",
        [
            ("n = 64", product(8192, 64, 64), {V5E: 11.3}),
            ("n = 96", product(8192, 96, 96), {V5E: 15.0}),
            ("n = 128", product(8192, 128, 128), {V5E: 18.8}),
        ],
    ),
    "vocabulary 8192 x 768 x n": (
        "n = 50304",
        [
            ("n = 50257", product(8192, 768, 50257), {V5E: 7210, V6E: 3440}),
            ("n = 50304", product(8192, 768, 50304), {V5E: 6780, V6E: 3330}),
            ("n = 51200", product(8192, 768, 51200), {V5E: 6920, V6E: 3360}),
        ],
    ),
    "rows x 4096 x 4096": (
        "512 rows",
        [
            ("1 row", product(1, 4096, 4096), {V5E: 239, V6E: 147}),
            ("8 rows", product(8, 4096, 4096), {V5E: 13, V6E: 14}),
            ("64 rows", product(64, 4096, 4096), {V5E: 23}),
            ("128 rows", product(128, 4096, 4096), {V5E: 41, V6E: 16}),
            ("256 rows", product(256, 4096, 4096), {V5E: 75}),
            ("512 rows", product(512, 4096, 4096), {V5E: 142, V6E: 46}),
        ],
    ),
    "convolution 3 x 3, 32 x 56 x 56": (
        "128 channels",
        [
            ("3 to 64 channels", convolution(3, 64), {V5E: 328}),
            ("16 channels", convolution(16, 16), {V5E: 185, V6E: 145}),
            ("32 channels", convolution(32, 32), {V5E: 351}),
            ("64 channels", convolution(64, 64), {V5E: 434}),
            ("100 channels", convolution(100, 100), {V5E: 487, V6E: 232}),
            ("128 channels", convolution(128, 128), {V5E: 428, V6E: 252}),
            ("130 channels", convolution(130, 130), {V5E: 997, V6E: 821}),
            ("256 channels", convolution(256, 256), {V5E: 1294, V6E: 472}),
        ],
    ),
    "product 4096 x 4096 x 4096": (
        "bfloat16",
        [
            ("bfloat16", product(4096, 4096, 4096), {V5E: 1090}),
            ("float32, medium", product(4096, 4096, 4096, "float32"), {V5E: 1110}),
            ("float32, high", product(4096, 4096, 4096, "float32"), {V5E: 3340}),
            ("float32, highest", product(4096, 4096, 4096, "float32"), {V5E: 6390}),
        ],
    ),
}


def measure(topology, name, op):
    """The cycles of an op alone."""
    precision = name.partition(", ")[2]
    modes = {
        "medium": torch.tpu.Precision.DEFAULT,
        "high": torch.tpu.Precision.HIGH,
        "highest": torch.tpu.Precision.HIGHEST,
    }
    # Settings are no part of what `Costs` remembers.
    costs = Costs(topology)
    if precision not in modes:
        return costs.of(op).cycles
    with torch.tpu.precision(modes[precision]):
        return costs.of(op).cycles


def check(topology, group, base, rows):
    """Print a group's table; return what is wrong with it."""
    rows = [(name, op, cycles[topology] * 1e3) for name, op, cycles in rows if topology in cycles]
    ours = {name: measure(topology, name, op) for name, op, _ in rows}
    theirs = {name: cycles for name, _, cycles in rows}
    wrong = []
    tolerance = ATTENTION_TOLERANCE if group.startswith("attention") else TOLERANCE
    print(f"\n{topology}, {group}\n{'':20}{'cycles':>12}{'JAX':>12}{'to base':>10}{'JAX':>10}")
    for name in ours:
        ratio, expected = ours[name] / ours[base], theirs[name] / theirs[base]
        is_off = abs(ratio / expected - 1) > tolerance
        numbers = f"{ours[name]:12,.0f}{theirs[name]:12,.0f}{ratio:10.3f}{expected:10.3f}"
        print(f"{name:20}{numbers}{'  off' if is_off else ''}", flush=True)
        if is_off:
            wrong.append(f"{topology}, {group}, {name}: {ratio:.3f} of {base}, expected {expected:.3f}")
    for a in ours:
        for b in ours:
            if theirs[a] > theirs[b] * (1 + tolerance) and ours[a] <= ours[b]:
                wrong.append(f"{topology}, {group}: {a} should cost more than {b}")
    return wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("groups", nargs="*", help="words that the names of groups begin with; all of them unless given")
    parser.add_argument("--topology", choices=(V5E, V6E), action="append", help="the machines; both unless given")
    options = parser.parse_args()
    if not torch.tpu.aot.is_available():
        print("advise-check needs libtpu: pip install libtpu")
        return 1 if os.environ.get("CI") == "true" else 0
    wrong, count = [], 0
    for topology in options.topology or (V5E, V6E):
        for group, (base, rows) in GROUPS.items():
            if (
                options.groups
                and not group.startswith(tuple(options.groups))
                or not any(topology in c for _, _, c in rows)
            ):
                continue
            count += 1
            wrong += check(topology, group, base, rows)
    print(f"\n{count} tables, {len(wrong)} rows outside of {TOLERANCE:.0%} (attention {ATTENTION_TOLERANCE:.0%})")
    for line in wrong:
        print(f"  {line}")
    return 1 if wrong or not count else 0


if __name__ == "__main__":
    sys.exit(main())
