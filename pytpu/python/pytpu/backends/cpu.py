"""The host's processor."""


def get_cpu_capability():
    """Return the name of the widest vectors that PyTorch has a name for: `DEFAULT`, `AVX2` or `AVX512`."""
    try:
        with open("/proc/cpuinfo") as file:
            flags = next((set(line.split()) for line in file if line.startswith("flags")), set())
    except OSError:
        flags = set()
    if {"avx512f", "avx512bw", "avx512vl", "avx512dq"} <= flags:
        return "AVX512"
    return "AVX2" if {"avx2", "fma"} <= flags else "DEFAULT"
