"""The API of the library: stores and sessions."""

from __future__ import annotations

from gitsession.api.session import Session
from gitsession.api.store import Store

__all__ = ["Session", "Store"]
