"""The diff as a DataFrame that shows its worst rows first."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd


def as_diff_frame(frame: pd.DataFrame) -> pd.DataFrame:
    """The same rows; only the display differs, slices and copies are plain DataFrames."""
    made: pd.DataFrame = _class()(frame)
    made.attrs.update(frame.attrs)
    return made


@functools.cache
def _class() -> Any:
    import pandas as pd

    class DiffFrame(pd.DataFrame):
        """One row per captured call; shown with the rows that differ first."""

        @property
        def _constructor(self) -> Any:
            return pd.DataFrame

        def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, Any]:
            from onnx_lab.view.html import diff_bundle

            plain = pd.DataFrame(self)
            plain.attrs.update(self.attrs)
            return diff_bundle(plain)

    return DiffFrame
