"""The scope of a remote: the sessions that a push may send to it. ``pushing.in_scope`` applies it to refs."""

from __future__ import annotations

from pathlib import Path

from gitsession.dataclass import dataclass
from gitsession.discovery import projects
from gitsession.index import names
from gitsession.index.catalogue import Catalogue
from gitsession.index.current_folder import is_of


@dataclass(frozen=True, kw_only=True, slots=True)
class Scope:
    """The limits on the sessions that are sent to a remote. A session must match one value of each limit that is set.

    Attributes:
        projects: Folders or ids of projects.
        agents: Names of agents.
        labels: Labels of entries.
        is_all: True for all sessions. The first push then needs no confirmation.
    """

    projects: tuple[str, ...] = ()
    agents: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()
    is_all: bool = False

    @property
    def limits(self) -> dict[str, tuple[str, ...]]:
        """The values of each limit, by the name of its setting."""
        return {"project": self.projects, "agent": self.agents, "label": self.labels}

    @property
    def is_limited(self) -> bool:
        return any(self.limits.values())


UNLIMITED = Scope()


def sessions_in(scope: Scope, catalogue: Catalogue) -> frozenset[str]:
    """Return the ids of the sessions in a limited scope."""
    folders = {project: projects.identity_of(Path(project)) for project in scope.projects}
    found = {
        row.sid
        for row in catalogue.sessions()
        if (not folders or any(is_of(row, *item) for item in folders.items()))
        and (not scope.agents or row.agent in scope.agents)
    }
    if scope.labels:
        labels = {sid: names.names(catalogue, sid).labels.values() for sid in found}
        found = {sid for sid in found if not set(scope.labels).isdisjoint(labels[sid])}
    return frozenset(found)
