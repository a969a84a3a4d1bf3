"""Which targets a name stands for."""

from __future__ import annotations

from collections.abc import Callable

from dpkmeans.audit.attacks import attack_targets
from dpkmeans.audit.mechanism_targets import mechanism_targets
from dpkmeans.audit.method_targets import method_targets, registered_target
from dpkmeans.audit.mutants import mutant_targets
from dpkmeans.audit.person_targets import person_mutants, person_targets
from dpkmeans.audit.power_targets import power_targets, with_power
from dpkmeans.audit.protocols import Target
from dpkmeans.core.epsilon import Epsilon
from dpkmeans.errors import MethodError
from dpkmeans.methods.registry import registry

GROUPS: dict[str, Callable[[float], tuple[Target, ...]]] = {
    "mechanisms": mechanism_targets,
    "methods": lambda epsilon: tuple(with_power(target, epsilon) for target in method_targets(epsilon)),
    "persons": person_targets,
    "attacks": attack_targets,
    "mutants": lambda epsilon: mutant_targets(epsilon) + person_mutants(epsilon),
}
POWER = "power"
"""Those cases of `methods` alone that were made for one method each."""


def targets_of(name: str, epsilon: float) -> tuple[Target, ...]:
    """A registered method, a mechanism, an attack, a group of targets, or all groups, at about `epsilon`.

    >>> [target.name for target in targets_of("laplace", 1.0)]
    ['Laplace']
    """
    epsilon = float(Epsilon.of(epsilon))
    if name == "all":
        return tuple(target for group in GROUPS.values() for target in group(epsilon))
    if name in GROUPS:
        return GROUPS[name](epsilon)
    if name == POWER:
        return power_targets(epsilon)
    if name in registry():
        return (with_power(registered_target(registry()[name], epsilon), epsilon),)
    single = {_slug(target.name): target for target in mechanism_targets(epsilon) + attack_targets(epsilon)}
    if _slug(name) in single:
        return (single[_slug(name)],)
    known = ", ".join(["all", *GROUPS, POWER, *single, *registry()])
    raise MethodError(f"there is no audit target {name!r}. Known: {known}.")


def _slug(name: str) -> str:
    return name.lower().replace(" ", "-")
