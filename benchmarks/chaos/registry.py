"""All faults, from the modules of this package that list any."""

from __future__ import annotations

import pkgutil
from importlib import import_module
from types import ModuleType

import benchmarks.chaos
from benchmarks.chaos.fault import Fault


def groups() -> dict[str, tuple[Fault, ...]]:
    """The faults of each module, by its name."""
    names = sorted(module.name for module in pkgutil.iter_modules(benchmarks.chaos.__path__))
    modules = {name: import_module(f"benchmarks.chaos.{name}") for name in names if not name.startswith("_")}
    return {name: faults_of(module) for name, module in modules.items() if faults_of(module)}


def faults_of(module: ModuleType) -> tuple[Fault, ...]:
    """What the module lists."""
    return getattr(module, "FAULTS", ())
