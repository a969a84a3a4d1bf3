"""What the innermost loop would take on a processor that is not here: compiled for it, and simulated by llvm-mca.

Run with `python benchmarks/other_processor.py --cpu skylake-avx512 --at-once 1,2`. Needs `llvm-mca`, which is part of
LLVM. It knows the units and latencies of a processor, and nothing of its memory: all loads hit the first cache.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

FEATURES = {
    "skylake-avx512": "+avx2,+fma,+bmi,+bmi2,+popcnt,+avx512f,+avx512vl,+avx512dq,+avx512bw",
    "icelake-server": "+avx2,+fma,+bmi,+bmi2,+popcnt,+avx512f,+avx512vl,+avx512dq,+avx512bw",
    "haswell": "+avx2,+fma,+bmi,+bmi2,+popcnt",
}
LOOPS = 100


def assembly(at_once: int) -> str:
    """The pass of Lloyd's algorithm, compiled for the processor that the environment names; it is not run."""
    import numba as nb

    from dpkmeans.kernels import llvm_f32
    from dpkmeans.kernels.assign import reassign

    llvm_f32.AT_ONCE = at_once
    tiles, matrix, labels = nb.float32[:, :, ::1], nb.float32[:, ::1], nb.uint8[:, ::1]
    counts, sums = nb.float64[::1], nb.float64[:, ::1]
    reassign.built.compile((tiles, nb.int64, tiles, matrix, labels, labels, counts, sums))
    return str(next(iter(reassign.built.inspect_asm().values())))


def loops(code: str) -> list[str]:
    """The bodies of innermost loops with fused multiply-adds."""
    lines, labels, found = code.splitlines(), dict[str, int](), []
    for i, line in enumerate(lines):
        if named := re.match(r"(\.LBB\d+_\d+):", line):
            labels[named[1]] = i
        jump = re.match(r"\s+j\w+\s+(\.LBB\d+_\d+)", line)
        if jump and jump[1] in labels:
            body = lines[labels[jump[1]] + 1 : i + 1]
            if any("vfmadd" in row for row in body) and not any(row.startswith(".LBB") for row in body):
                found.append("\n".join(row for row in body if not row.strip().startswith(".")))
    return found


def cycles(body: str, cpu: str) -> float:
    """Simulated cycles of one turn of a loop."""
    command = ["llvm-mca", f"-mcpu={cpu}", f"-iterations={LOOPS}"]
    shown = subprocess.run(command, input=body, capture_output=True, text=True, check=True).stdout
    return int(re.search(r"Total Cycles:\s+(\d+)", shown)[1]) / LOOPS  # type: ignore[index]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cpu", choices=FEATURES, default="skylake-avx512")
    parser.add_argument("--at-once", default="1,2", help="groups of centroids that are searched at once")
    parser.add_argument("--one", type=int, help=argparse.SUPPRESS)  # in a process of its own
    options = parser.parse_args()
    if options.one is not None:
        print(assembly(options.one))
        return
    for at_once in options.at_once.split(","):
        with TemporaryDirectory() as folder:
            target = {"NUMBA_CPU_NAME": options.cpu, "NUMBA_CPU_FEATURES": FEATURES[options.cpu]}
            command = [sys.executable, str(Path(__file__).resolve()), "--one", at_once]
            surrounding = {**os.environ, **target, "NUMBA_CACHE_DIR": folder}
            code = subprocess.run(command, env=surrounding, capture_output=True, text=True, check=True).stdout
        width = 16 if "zmm" in code else 8
        print(f"{options.cpu}, {at_once} at once:")
        for body in loops(code):
            sums = len(re.findall("vfmadd", body))
            time = cycles(body, options.cpu)
            print(f"  {sums} sums of {width} lanes in {time:.1f} cycles: {width * sums / time:.1f} per cycle")


if __name__ == "__main__":
    main()
