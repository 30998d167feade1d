"""The front door: a store and its sessions as a program sees them."""

from __future__ import annotations

from gitsession.api.session import Session
from gitsession.api.store import Store

__all__ = ["Session", "Store"]
