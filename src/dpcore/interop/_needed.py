"""Peers that each call of a function needs: their versions are looked up by the first call."""

from __future__ import annotations

from functools import lru_cache

from dpcore.interop._peers import Peer


@lru_cache(maxsize=64)
def needed(*peers: Peer) -> None:
    """Import peers, and warn of untested versions; raises like `Peer.require`, then at each call."""
    for peer in peers:
        peer.require()
