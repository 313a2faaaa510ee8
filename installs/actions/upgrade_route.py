"""The route of an upgrade in several steps: recorded with the actions that begin and continue it,
shown with the number of steps done. Makes no request.

A route is a list of bundle names: the installed bundle (empty for an install), then the target of
each step.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from catalogs.graph.routes import in_words
from catalogs.resolve.analysis import V0, analyse, route_to
from catalogs.resolve.facts import ResolverPackage
from installs.state.upgrades import version_of


@dataclass(frozen=True, slots=True)
class UpgradeProgress:
    """A route of which `done` steps have finished, and not all. `manual`: OLM v0 begins each step
    after an approval of its own."""

    route: tuple[str, ...]
    done: int
    manual: bool = False

    @property
    def is_offer(self) -> bool:
        """Nobody requested the steps that follow the installation: OLM v0 offers each."""
        return self.manual and not self.route[0]

    @property
    def steps(self) -> int:
        return len(self.route) - 1

    @property
    def sentence(self) -> str:
        """`Upgrading from 1.0.0 to 2.0.0 over 1.5.0: 1 of 2 steps done, now at 1.5.0.`"""
        versions = {name: version_of(name, {}, None) for name in self.route}
        start, first, *rest = self.route
        if self.is_offer:
            current, following = (
                versions[name] or name
                for name in self.route[max(self.done, 1) : max(self.done, 1) + 2]
            )
            state = f"{current} is installed" if self.done else f"Installs {current} after approval"
            return f"{state}. {following} is offered next and needs an approval of its own."
        if start:
            what = f"Upgrading {in_words(start, self.route[1:], versions)}"
        else:
            upgrade = in_words(first, rest, versions).removeprefix(f"from {versions[first]} ")
            what = f"Installing {versions[first] or first}, then upgrading {upgrade}"
        here = self.route[self.done]
        now = f", now at {versions[here] or here}" if here else ""
        return f"{what}: {self.done} of {self.steps} steps done{now}."

    def step_to(self, bundles: Sequence[str]) -> str:
        """`step 2 of 3 to 2.0.0` for the step that leads to one of the bundles; empty without
        one, and for a step that OLM v0 only offers."""
        if self.is_offer:
            return ""
        numbers = [number for number, name in enumerate(self.route) if number and name in bundles]
        last = self.route[-1]
        target = version_of(last, {}, None) or last
        return f"step {numbers[0]} of {self.steps} to {target}" if numbers else ""


def progress_on(
    route: Sequence[str] | None, installed: str, *, manual: bool = False
) -> UpgradeProgress | None:
    """None if the installed bundle is the last of the route or none of it."""
    if not route or installed not in route[:-1]:
        return None
    return UpgradeProgress(tuple(route), list(route).index(installed), manual)


def steps_after(facts: ResolverPackage, channel: str, bundle: str) -> tuple[str, ...]:
    """The bundles that OLM v0 upgrades `bundle` to, one after the other, up to the head of the
    channel, an empty one being the default; empty where it does not lead there, and without an
    upgrade graph."""
    channel = channel or facts.default_channel
    if channel not in facts.channels or not facts.complete:
        return ()
    analysis = analyse(facts, V0, channel)
    if not analysis.chosen or bundle not in analysis.table:
        return ()
    route = route_to(analysis, bundle, analysis.chosen)
    return tuple(hop.target for hop in route.hops) if route.reached else ()


def route_of(start: str, steps: Sequence[str]) -> tuple[str, ...]:
    """The route to record: empty for a single step."""
    return (start, *steps) if len(steps) > 1 else ()
