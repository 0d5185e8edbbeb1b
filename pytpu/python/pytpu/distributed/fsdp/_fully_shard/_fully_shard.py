"""The place where programs look for `fully_shard` and its class."""

from .._module import (
    FSDPModule as FSDPModule,
    UnshardHandle as UnshardHandle,
    fully_shard as fully_shard,
    register_fsdp_forward_method as register_fsdp_forward_method,
)
