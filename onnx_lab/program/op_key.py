"""The name under which an operator is looked up: ``namespace::name[.overload]``."""

from __future__ import annotations


class OpKey(str):
    """A plain string such as ``aten::add.Tensor`` whose parts can be read.

    Operators without a schema have keys of the same form: ``_operator::mul`` for Python
    operators on symbolic sizes, ``math::ceil``, ``higher_order::cond``.
    """

    __slots__ = ()

    @property
    def namespace(self) -> str:
        return self.partition("::")[0]

    @property
    def qualified_name(self) -> str:
        """The key without its overload: ``aten::add``."""
        namespace, _, rest = self.partition("::")
        return f"{namespace}::{rest.partition('.')[0]}"

    @property
    def name(self) -> str:
        """The bare operator name: ``add``."""
        return self.partition("::")[2].partition(".")[0]

    @property
    def overload(self) -> str:
        """The overload, or an empty string for the default one."""
        return self.partition("::")[2].partition(".")[2]

    @classmethod
    def of(cls, namespace: str, name: str, overload: str = "") -> OpKey:
        suffix = f".{overload}" if overload and overload != "default" else ""
        return cls(f"{namespace}::{name}{suffix}")
