"""Try many random programs: ``python tests/programs/run.py --count 2000 [--start 0]``. Prints what is not equal."""

from __future__ import annotations

import argparse
import collections
import sys
import traceback
import warnings
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

import torch

from tests.programs.check_program import outcome
from tests.programs.generator import generate


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--start", type=int, default=0)
    parser.add_argument("--length", type=int, default=8)
    parser.add_argument("--refused", action="store_true", help="also print refused programs")
    options = parser.parse_args()
    warnings.filterwarnings("ignore")
    torch.set_num_threads(1)
    counts: collections.Counter[str] = collections.Counter()
    for seed in range(options.start, options.start + options.count):
        program = generate(seed, options.length)
        try:
            found = outcome(program)
        except Exception:  # noqa: BLE001  whatever is raised here is a finding
            found = "raised: " + traceback.format_exc().strip().splitlines()[-1][:300]
        torch.compiler.reset()
        kind = found.split(":")[0] if not found.startswith("output") else "mismatch"
        counts[kind] += 1
        if kind not in ("equal", "refused") or (options.refused and kind == "refused"):
            print(f"--- seed {seed} dynamic={program.dynamic}: {found}\n{program.source}")
            print(
                "   ",
                {name: f"{value.dtype} {list(value.shape)}" for name, value in program.inputs.items()},
                flush=True,
            )
        elif kind == "refused":
            counts["  " + found[:110]] += 1
    for name, count in counts.most_common():
        print(f"{count:6} {name}")


if __name__ == "__main__":
    main()
