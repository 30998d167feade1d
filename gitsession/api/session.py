"""A session as a program sees it. Every method is a line or two that calls down.

What it does for a model and with the files of a workspace stands in files of their own.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from gitsession.api.checkpoints import Checkpoints
from gitsession.api.contexts import Contexts
from gitsession.errors import NotFound, Refused, require
from gitsession.git.types import Oid
from gitsession.index import names
from gitsession.index.names import Names
from gitsession.live import follow as following
from gitsession.live.follow import News
from gitsession.model.entries import Entry, Seal
from gitsession.sessions import session as sessions
from gitsession.sessions.gaps import Gap
from gitsession.sessions.graph import Tree
from gitsession.sessions.node import Node
from gitsession.sessions.origin import Origin, origin, started
from gitsession.sessions.session import OnMoved

if TYPE_CHECKING:
    from gitsession.verify.findings import Sealed


class Session(Contexts, Checkpoints):
    """One session: append to it, walk it, branch it. Entries come back as ``Node``; ``read`` gives what they mean.

    ``Store.new_session`` and ``Store.session`` give one.
    """

    @property
    def branch_name(self) -> str:
        """The branch this handle is on."""
        return self._session.branch_name

    def line(self) -> list[Node]:
        """The entries from the root to the leaf. Raises ``Corrupt`` where one of them is lost."""
        return self._session.line()

    def line_with_gaps(self) -> list[Node | Gap]:
        """The same, with a ``Gap`` (``oid``, ``problem``) in the place of each entry that cannot be read."""
        return self._session.line_with_gaps()

    def tree(self) -> Tree:
        """Every entry of every branch."""
        return self._session.tree()

    def branches(self) -> dict[str, Oid]:
        """The leaf of each branch."""
        return self._session.branches()

    def names(self) -> Names:
        """Title and labels, from the catalogue."""
        return names.names(self._catalogues.get(), self.id)

    def read(self, at: str | Node) -> Entry:
        """What an entry means."""
        return self._session.read(self._session.resolve(at))

    def resolve(self, at: str | Node) -> Node:
        """The entry that an address names. Raises ``NotFound`` or ``Ambiguous``."""
        return self._session.resolve(at)

    def follow(self, *, every: float = following.EVERY_SECONDS, idle: bool = False) -> Iterator[News | None]:
        """Every entry of this session that comes from now on, on any branch: as ``Store.follow``."""
        return following.follow(self._objects, sid=self.id, every=every, idle=idle)

    # ---- what happens

    def append(self, entry: Entry, *, expected: Node | None = None, on_moved: OnMoved = "refuse") -> Node:
        """Write one entry after the leaf; it is durable when this returns.

        Without ``expected`` the entry goes after whatever is the leaf by then. With it, it goes after that entry only:
        where another writer was first, ``on_moved="refuse"`` raises ``LeafMoved``, and ``"fork"`` opens a branch beside
        theirs, on which this handle then stays. Raises ``Malformed`` for what the format cannot hold.
        """
        return self._session.append(entry, expected=expected, on_moved=on_moved)

    def branch(self, name: str, at: str | Node = "leaf") -> Session:
        """Start a branch at an entry; the session comes back on it. Raises ``Refused`` where the name is taken."""
        require(name, str, "a name for the branch")
        if names.labelled(self._catalogues.get(), self.id, name) is not None:
            raise Refused(f"{name!r} is a label in this session", hint="choose another name")
        self._session.branch(name, at)
        return self.on(name)

    def on(self, branch: str) -> Session:
        """The same session, on another branch. Nothing is moved. Raises ``NotFound``."""
        return self._beside(self._session.on(branch))

    def switch(self, branch: str) -> Node:
        """Make ``branch`` the active one on this machine, and go on there."""
        return self._session.switch(branch)

    def fork(self, at: str | Node = "leaf") -> Session:
        """A session of its own that begins at an entry of this one: one ref and one entry, however long the line."""
        catalogue = self._catalogues.get()
        row = catalogue.session(self.id)
        if row is None:
            raise NotFound(f"session {self.id} has no entries yet")
        called = names.names(catalogue, self.id)
        forked = self._session.fork(at, agent=row.agent, cwd=row.project, title=called.title, labels=called.chains)
        return self._beside(forked)

    def _beside(self, session: sessions.Session) -> Session:
        return Session(self._objects, self._catalogues, self._memory, session)

    def label(self, at: str | Node, label: str) -> Node:
        """Name an entry, in place of the name it had; an empty label takes the name away.

        Raises ``Refused`` where the name already leads to another entry of this session.
        """
        node, label = self._session.resolve(at), sessions.name_of(label)
        taken = names.labelled(self._catalogues.get(), self.id, label) if label else None
        if taken not in (None, node.oid):
            raise Refused(f"{label!r} is the label of {taken[:12]}", hint="an empty label takes it away there")
        if self._session.has_branch(label):
            raise Refused(f"{label!r} is a branch of this session", hint="choose another name")
        return self._session.label(node, label)

    def origin(self) -> Origin | None:
        """Where an imported session came from: the session, and the call there that started it as a sub-agent.

        Of one that was resumed as another one (``Store.resume``): that one, and the entry it was resumed from.
        """
        catalogue = self._catalogues.get()
        row = catalogue.session(self.id)

        def find(agent: str, source_id: str) -> str | None:
            return next((row.sid for row in catalogue.by_source(agent, source_id)), None)

        return origin(self._objects, self.id, row.source_id if row else None, find)

    def started(self, at: str | Node = "leaf") -> list[str]:
        """The sessions that the calls of an entry started, as sub-agents: ``origin`` the other way round."""
        catalogue = self._catalogues.get()
        row = catalogue.session(self.id)
        if row is None or row.source_id is None:
            return []
        begun = {each.sid: each.source_id for each in catalogue.begun_by(row.agent, row.source_id)}
        if not begun:
            return []
        return started(self._objects, self._session.resolve(at), self.tree(), row.agent, begun)

    def rename(self, title: str) -> None:
        """Name the session; an empty title takes the name away."""
        self._session.rename(title)

    def seal(self, branch: str | None = None, *, key: str = "") -> Seal:
        """Sign a branch as it is, by default the one this handle is on, and keep that (docs/verify.md, "Seals").

        ``key``: another than git's ``user.signingKey``. Raises ``NotFound``, ``Unavailable`` where nobody signs, and
        what reading raises where an entry is lost.
        """
        from gitsession.git.signing import Signing
        from gitsession.verify import signatures as seals

        made = seals.make(
            self._objects, self.id, branch or self.branch_name, self._session.clock(), Signing.of_user(), key
        )
        self._session.seal(made)
        return made

    def seals(self) -> list[Sealed]:
        """The seals of this session, the newest first, and what they are worth."""
        from gitsession.git.signing import Signing
        from gitsession.verify import signatures as seals

        return seals.of_session(self._objects, self.id, Signing.of_user())
