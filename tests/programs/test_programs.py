"""Random programs with fixed seeds: each equals eager or is refused clearly. ``run.py`` tries as many as one likes."""

from __future__ import annotations

import pytest

from tests.programs.check_program import outcome
from tests.programs.generator import generate

GROUPS = 8
SEEDS = range(120)


@pytest.mark.filterwarnings("ignore::UserWarning")  # eager remarks on what random lines do (empty variances, resizes)
@pytest.mark.parametrize("group", range(GROUPS))
def test_programs_equal_eager(group: int) -> None:
    for seed in SEEDS[group::GROUPS]:
        program = generate(seed)
        found = outcome(program)
        assert found == "equal" or found.startswith("refused"), f"seed {seed}: {found}\n{program.source}"
