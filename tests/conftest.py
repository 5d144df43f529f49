"""What every test stands on: one thread, no network, and nothing written into the user's folders."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

# Several workers share the machine; and sums in a fixed order make runs comparable. Set before torch is imported.
os.environ.setdefault("OMP_NUM_THREADS", "1")
# Models in tests are made here or come from packages: a look-up on a hub is a mistake, and must not wait long.
os.environ.setdefault("HF_HUB_OFFLINE", "1")


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A test that writes "model.onnx" writes into its own folder, not into the repository."""
    monkeypatch.chdir(tmp_path)


@pytest.fixture(scope="session", autouse=True)
def _ipython_of_its_own(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Shells and kernels of the tests read no profile of the user and leave no history behind."""
    os.environ["IPYTHONDIR"] = str(tmp_path_factory.mktemp("ipython"))


@pytest.fixture(autouse=True)
def _same_numbers_every_time() -> None:
    """Random inputs are the same in every run and in any order of the tests."""
    import torch

    torch.manual_seed(0)
