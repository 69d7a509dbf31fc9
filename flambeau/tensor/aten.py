"""torch.ops.aten: PyTorch's operators by their own names, as the public functions that do the same."""

from __future__ import annotations

import importlib
from typing import Any

__all__ = ["aten"]


class OverloadPacket:
    """An operator; its overloads, such as ``.Tensor`` and ``.default``, are called alike."""

    def __init__(self, name: str) -> None:
        self._name = self.__name__ = name

    def _function(self) -> Any:
        torch = importlib.import_module("flambeau")
        for owner in (torch, torch.nn.functional, torch.Tensor, torch.special, torch.linalg):
            found = getattr(owner, self._name, None)
            if found is not None:
                return found
        raise NotImplementedError(f"torch.ops.aten.{self._name}: there is no public function of this name; call what does the same")

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._function()(*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        overload = OpOverload(self, name)
        setattr(self, name, overload)
        return overload

    def __repr__(self) -> str:
        return f"<OpOverloadPacket(op='aten.{self._name}')>"


class OpOverload:
    """One overload of an operator: a name that can be a key, and is called as the operator."""

    def __init__(self, packet: OverloadPacket, name: str) -> None:
        self.overloadpacket, self._overloadname = packet, name

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.overloadpacket(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<OpOverload(op='aten.{self.overloadpacket._name}', overload='{self._overloadname}')>"


class _Operators:
    """The operators by name, each made at first use."""

    def __getattr__(self, name: str) -> OverloadPacket:
        if name.startswith("__"):
            raise AttributeError(name)
        packet = OverloadPacket(name)
        setattr(self, name, packet)
        return packet


aten = _Operators()
