"""The library's API: a store and its sessions."""

from __future__ import annotations

from gitsession.api.session import Session
from gitsession.api.store import Store

__all__ = ["Session", "Store"]
