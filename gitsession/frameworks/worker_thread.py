"""Work in threads for the asynchronous methods of adapters."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVar

Result = TypeVar("Result")


async def run_to_completion(work: Callable[[], Result]) -> Result:
    """Run ``work`` in a thread, and wait for its end even if the caller is cancelled, so that its outcome is known."""
    task = asyncio.ensure_future(asyncio.to_thread(work))
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        while not task.done():
            try:
                await asyncio.wait({task})
            except asyncio.CancelledError:
                continue
        task.exception()
        raise
