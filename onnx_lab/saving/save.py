"""save_model(): one file, or a model with its weights beside it."""

from __future__ import annotations

import os
from pathlib import Path

import onnx_ir as ir

from onnx_lab.errors import SaveError
from onnx_lab.saving.atomic import replacing
from onnx_lab.saving.external import data_path, write_external
from onnx_lab.saving.memory import SIZE_LIMIT, require_values
from onnx_lab.saving.stream import InlineFile, split_model


def save_model(
    model: ir.Model,
    path: str | os.PathLike[str],
    *,
    external_data: bool | None = None,
    size_limit: int = SIZE_LIMIT,
) -> list[Path]:
    """Write ``model`` to ``path``; weights are streamed, the model is not changed.

    What was there is replaced by renames when everything is written. On any error, Ctrl-C included,
    it is there as before, without other files. If the process is killed or the power fails, ``path``
    is still the old or the new model, each with its own weights; files named ``.<name>.*`` may remain
    (one of them may be the old model's weights: save again before deleting them). Only a reader that
    opened the old model before the renames and its weights after them can mix the two.
    A data file that the new model does not need is left where it is.

    Args:
        external_data: True: weights in ``<path>.data``; False: one file; None: one file below 2 GB.
        size_limit: bytes above which one file is not possible.

    Returns:
        The files written, the model first.

    Raises:
        SaveError: the place cannot be written, a weight has no values, or one file was asked for and
            would be too large.
    """
    path = Path(path)
    if os.path.islink(path):  # noqa: PTH114 - unlike is_symlink(), it takes a name that cannot exist
        path = path.resolve()  # write to what the link names, and leave the link
    with replacing(path) as replacement:
        proto, large = split_model(model)
        require_values(large)
        whole = InlineFile(proto, large)
        too_large = whole.size > size_limit
        if too_large and external_data is False:
            raise SaveError(
                f"{path} would hold {whole.size / 2**30:.1f} GiB: a protobuf file ends at 2 GiB",
                hint="leave external_data out, or set it to True",
            )
        if external_data or too_large:
            write_external(replacement, proto, large, path)
            written = [path, data_path(path)]
        else:
            with replacement.open(path) as handle:
                whole.write(handle)
            written = [path]
        replacement.commit()
    return written
