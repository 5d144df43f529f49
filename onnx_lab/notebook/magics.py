"""The magics: thin shells over plain functions."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, NoReturn

from IPython.core.error import UsageError
from IPython.core.magic import (
    Magics,
    line_magic,
    magics_class,
    needs_local_scope,
    no_var_expand,
)
from IPython.core.magic_arguments import argument, magic_arguments

from onnx_lab.errors import InputError
from onnx_lab.notebook.arguments import dynamic_spec, evaluate, split_inputs, split_line
from onnx_lab.notebook.progress import Progress

_CAPTURES = ("auto", "export", "dynamo", "trace", "script")
_MODES = ("eval", "preserve", "train")
_STATES = ("frozen", "io")


def _model_arguments(function: Any) -> Any:
    """Arguments that exporting and looking before exporting have in common."""
    for decorate in reversed(
        (
            argument("model", help="the model: any expression, or the quoted path of a saved script"),
            argument("inputs", nargs="*", help="example inputs: x, (x, y), x y, or mask=m for keyword inputs"),
            argument("--kwargs", help="keyword inputs as a dict expression"),
            argument("--opset", type=int, help="18 to 28; default 23"),
            argument("--capture", choices=_CAPTURES, default="auto", help="front end; default auto"),
            argument("--dynamic", nargs="+", metavar="SPEC", help="dynamic dims: 0=batch, x:0=batch,1=time, or a tree"),
            argument("--training", choices=_MODES, default="eval", help="mode to capture in; default eval"),
        )
    ):
        function = decorate(function)
    return function


@magics_class
class LabMagics(Magics):
    """``%onnx_export`` and its kin. The last result is remembered for the others."""

    last: Any = None
    _scope: dict[str, Any]

    @no_var_expand
    @needs_local_scope
    @line_magic
    @magic_arguments("%onnx_export")
    @_model_arguments
    @argument("-o", "--output", metavar="PATH", help="write the model to this file")
    @argument("--input-names", nargs="+", metavar="NAME", help="names of the input tensors")
    @argument("--output-names", nargs="+", metavar="NAME", help="names of the output tensors")
    @argument("--state", choices=_STATES, default="frozen", help="io: state as inputs and outputs; default frozen")
    @argument("--verify", action="store_true", help="compare with eager before anything is written")
    @argument("--external-data", action="store_true", help="weights into PATH.data instead of one file")
    def onnx_export(self, line: str, local_ns: dict[str, Any] | None = None) -> Any:
        """Export a PyTorch model to ONNX; returns the result.

        %onnx_export model x -o model.onnx
        %onnx_export model ids attention_mask=mask --dynamic ids:0=batch,1=length attention_mask:0=batch,1=length
        """
        from onnx_lab import export

        options = self._parse(LabMagics.onnx_export, line, local_ns)
        model, args, kwargs, dynamic = self._call(options)
        with Progress(f"exporting {type(model).__name__}") as progress:
            result = export(
                model, args, kwargs=kwargs, dynamic_shapes=dynamic, opset_version=options.opset,
                capture=options.capture, training=options.training, verify=options.verify,
                input_names=options.input_names, output_names=options.output_names, on_stage=progress.stage,
                state=options.state,
            )  # fmt: skip
            if options.output:
                progress.stage("save")
                for path in result.save(options.output, external_data=options.external_data or None):
                    _say(f"wrote {path} ({path.stat().st_size / 1e6:.1f} MB)")
        self.last = result
        return result

    @no_var_expand
    @needs_local_scope
    @line_magic
    @magic_arguments("%onnx_graph")
    @argument("result", nargs="?", help="a result (default: the last one), a captured graph or an onnx_ir.Model")
    @argument("--kind", choices=("onnx", "fx", "both"), default="onnx", help="which graph; default onnx")
    @argument("--depth", type=int, help="open modules down to this depth")
    @argument("--open", nargs="+", metavar="MODULE", help="open these modules")
    @argument("--focus", metavar="MODULE", help="draw only this module")
    @argument("-o", "--output", metavar="PATH", help="write the picture: .svg, .png, .dot or .txt")
    def onnx_graph(self, line: str, local_ns: dict[str, Any] | None = None) -> Any:
        """Draw the ONNX graph, the captured graph, or both, folded by module."""
        from onnx_lab import Drawing

        options = self._parse(LabMagics.onnx_graph, line, local_ns)
        source = self._result(options.result)
        drawing = Drawing.of(source, options.kind, depth=options.depth, opened=options.open, focus=options.focus)
        if options.output:
            _say(f"wrote {drawing.save(options.output)}")
        return drawing

    @no_var_expand
    @needs_local_scope
    @line_magic
    @magic_arguments("%onnx_ops")
    @argument("result", nargs="?", help="a result; default: the last one")
    def onnx_ops(self, line: str, local_ns: dict[str, Any] | None = None) -> Any:
        """A table of the captured operators and what each became."""
        options = self._parse(LabMagics.onnx_ops, line, local_ns)
        return self._result(options.result, "ops").ops()

    @no_var_expand
    @needs_local_scope
    @line_magic
    @magic_arguments("%onnx_coverage")
    @_model_arguments
    def onnx_coverage(self, line: str, local_ns: dict[str, Any] | None = None) -> Any:
        """Every operator of a model and whether it can be lowered, without exporting."""
        from onnx_lab import coverage

        options = self._parse(LabMagics.onnx_coverage, line, local_ns)
        model, args, kwargs, dynamic = self._call(options)
        with Progress(f"looking at {type(model).__name__}") as progress:
            return coverage(
                model, args, kwargs=kwargs, dynamic_shapes=dynamic, opset_version=options.opset,
                capture=options.capture, training=options.training, on_stage=progress.stage,
            )  # fmt: skip

    @no_var_expand
    @needs_local_scope
    @line_magic
    @magic_arguments("%onnx_diff")
    @argument("result", nargs="?", help="a result; default: the last one")
    @argument("inputs", nargs="*", help="other inputs than the example's; the result must then be named")
    @argument("--rtol", type=float, help="relative tolerance; default by dtype")
    @argument("--atol", type=float, help="absolute tolerance; default by dtype")
    def onnx_diff(self, line: str, local_ns: dict[str, Any] | None = None) -> Any:
        """A table of where numbers differ from eager PyTorch, one row per captured call."""
        options = self._parse(LabMagics.onnx_diff, line, local_ns)
        result = self._result(options.result, "diff")
        args, kwargs = split_inputs(options.inputs, self._scope) if options.inputs else (None, None)
        return result.diff(args, kwargs, rtol=options.rtol, atol=options.atol)

    # -- arguments ----------------------------------------------------------------------------------

    def _parse(self, magic: Any, line: str, local_ns: dict[str, Any] | None) -> Any:
        self._scope = {**(self.shell.user_ns if self.shell is not None else {}), **(local_ns or {})}
        parser = magic.parser
        words = split_line(line.rstrip().removesuffix(";"))
        known = {option for action in parser._actions for option in action.option_strings}
        for word in words:
            if word.startswith("--") and word.partition("=")[0] not in known:
                _unknown_option(word.partition("=")[0], known)
        return parser.parse_args(words)

    def _call(self, options: Any) -> tuple[Any, tuple[Any, ...], dict[str, Any], Any]:
        model = evaluate(options.model, self._scope, "model")
        if isinstance(model, (str, os.PathLike)):
            from onnx_lab import load_script

            model = load_script(model)
        args, kwargs = split_inputs(options.inputs, self._scope)
        if options.kwargs:
            kwargs |= evaluate(options.kwargs, self._scope, "--kwargs")
        dynamic = None
        if options.dynamic:
            dynamic = dynamic_spec(options.dynamic, _input_parameters(model, args, kwargs), self._scope)
        return model, args, kwargs, dynamic

    def _result(self, expression: str | None, method: str | None = None) -> Any:
        """What an expression gives, or the last result; ``method`` is one that it must have."""
        if expression is not None:
            found = evaluate(expression, self._scope, "result")
            if method is not None and not hasattr(found, method):
                raise InputError(
                    f"%onnx_{method} takes a result of %onnx_export, and {expression} is none",
                    seen=f"{expression} is a {type(found).__name__}",
                    hint=f"result = %onnx_export {expression} ...; then %onnx_{method} result",
                )
            return found
        if self.last is None:
            raise UsageError("no result yet: run %onnx_export first, or name one")
        return self.last


def _say(text: str) -> None:
    """A line under the cell."""
    print(text)  # noqa: T201  what a magic reports is meant to be read


def _unknown_option(word: str, known: set[str]) -> NoReturn:
    import difflib

    close = difflib.get_close_matches(word, known, n=1, cutoff=0.4)
    hint = f"did you mean {close[0]}?" if close else f"options: {', '.join(sorted(known - {'-h'}))}"
    raise UsageError(f"no option {word}; {hint}")


def _input_parameters(model: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> list[str]:
    """Parameter names of the inputs given."""
    import inspect

    forward = getattr(model, "forward", None)
    schema = getattr(forward if forward is not None else model, "schema", None)
    if schema is not None:  # a scripted program
        names = [one.name for one in schema.arguments if one.name != "self"]
        return [*names[: len(args)], *kwargs]
    if forward is None:
        return list(kwargs)
    names = [one.name for one in inspect.signature(forward).parameters.values()]
    return [*names[: len(args)], *kwargs]
