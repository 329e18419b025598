"""The items of the checklist, one a file, in the order in which they are told."""

from __future__ import annotations

from chaos.audit.item import Item
from chaos.audit.items import (
    actor_state,
    head_placement,
    head_recovery,
    key_namespace,
    leftover_keys,
    network_policy,
    redis_auth,
    redis_availability,
    redis_cleanup,
    requirements,
)

ITEMS: tuple[Item, ...] = (
    requirements.ITEM,
    redis_availability.ITEM,
    redis_auth.ITEM,
    network_policy.ITEM,
    head_placement.ITEM,
    head_recovery.ITEM,
    actor_state.ITEM,
    redis_cleanup.ITEM,
    key_namespace.ITEM,
    leftover_keys.ITEM,
)
