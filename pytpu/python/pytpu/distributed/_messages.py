"""Messages on tensors between two ranks.

Each function checks its arguments and passes them to a method of the group, as those in `_collectives` do.
"""

from __future__ import annotations

from ._collectives import _canonicalize_group_rank, _check_not_self_rank, _check_single_tensor
from ._groups import _group_or_default_group, _member, get_global_rank
from ._methods import _on_device
from ._process_group import ProcessGroup

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from .. import Tensor
    from .._C import Work


def send(
    tensor: Tensor,
    dst: int | None = None,
    group: ProcessGroup | None = None,
    tag: int = 0,
    group_dst: int | None = None,
) -> None:
    """Send a tensor to another rank.

    Args:
        tensor: the tensor.
        dst: the global rank of the receiver. Or `group_dst`, its rank in `group`.
        group: the ranks. The default is the group of all ranks.
        tag: a number. The receiver asks for the same one.
        group_dst: the rank of the receiver in `group`.
    """
    pg = _member(group, "send")
    if pg is None:
        return
    to = _canonicalize_group_rank(pg, dst, group_dst)
    _check_not_self_rank(pg, to, "destination")
    _check_single_tensor(tensor, "tensor")
    pg._check_message("send", [tensor], tag)
    _on_device(pg, tensor).send([tensor], to, tag, False)


def recv(
    tensor: Tensor,
    src: int | None = None,
    group: ProcessGroup | None = None,
    tag: int = 0,
    group_src: int | None = None,
) -> int:
    """Receive a tensor from another rank.

    Args:
        tensor: the place of the result. Number of elements and dtype are those of the sender's tensor.
        src: the global rank of the sender. Or `group_src`, its rank in `group`. Without both, any rank.
        group: the ranks. The default is the group of all ranks.
        tag: a number, that of the sender.
        group_src: the rank of the sender in `group`.

    Returns:
        The global rank of the sender, or -1 if this rank is not in `group`.
    """
    _check_single_tensor(tensor, "tensor")
    pg = _member(group, "recv")
    if pg is None:
        return -1
    source = None if src is None and group_src is None else _canonicalize_group_rank(pg, src, group_src)
    if source is not None:
        _check_not_self_rank(pg, source, "source")
    pg._check_message("recv", [tensor], tag)
    return get_global_rank(pg, _on_device(pg, tensor).recv([tensor], source, tag))


def isend(
    tensor: Tensor,
    dst: int | None = None,
    group: ProcessGroup | None = None,
    tag: int = 0,
    group_dst: int | None = None,
) -> Work | None:
    """Begin to send a tensor to another rank. See `send`.

    Returns:
        A `Work`, or `None` if this rank is not in `group`.
    """
    pg = _member(group, "isend")
    if pg is None:
        return None
    to = _canonicalize_group_rank(pg, dst, group_dst)
    _check_single_tensor(tensor, "tensor")
    return pg.send([tensor], to, tag)


def irecv(
    tensor: Tensor,
    src: int | None = None,
    group: ProcessGroup | None = None,
    tag: int = 0,
    group_src: int | None = None,
) -> Work | None:
    """Begin to receive a tensor from another rank. See `recv`.

    Returns:
        A `Work`, or `None` if this rank is not in `group`.
    """
    _check_single_tensor(tensor, "tensor")
    pg = _member(group, "irecv")
    if pg is None:
        return None
    if src is None and group_src is None:
        return pg.recv_anysource([tensor], tag)
    return pg.recv([tensor], _canonicalize_group_rank(pg, src, group_src), tag)


class P2POp:
    """A message for `batch_isend_irecv`.

    Args:
        op: `isend` or `irecv`.
        tensor: the tensor.
        peer: the global rank of the other side. Or `group_peer`, its rank in `group`.
        group: the ranks. The default is the group of all ranks.
        tag: a number, the same on both sides.
        group_peer: the rank of the other side in `group`.
    """

    def __init__(
        self,
        op: Callable[..., Work | None],
        tensor: Tensor,
        peer: int | None = None,
        group: ProcessGroup | None = None,
        tag: int = 0,
        group_peer: int | None = None,
    ) -> None:
        if op not in (isend, irecv):
            raise ValueError(
                "Invalid ``op``. Expected ``op`` to be of type ``torch.distributed.isend`` or "
                "``torch.distributed.irecv``."
            )
        _check_single_tensor(tensor, "tensor")
        self.op, self.tensor, self.tag = op, tensor, tag
        self.group = _group_or_default_group(group)
        self.peer = _canonicalize_group_rank(self.group, peer, group_peer, return_global=True)
        self.group_peer = _canonicalize_group_rank(self.group, peer, group_peer)

    def __repr__(self) -> str:
        mine = self.group.rank()
        source, target = (mine, self.group_peer) if self.op is isend else (self.group_peer, mine)
        return (
            f"P2POp({self.op.__name__} pg={self.group.group_name}, group_src={source}, group_dst={target},  "
            f"{self.tensor.shape}, {self.tensor.dtype})"
        )


def batch_isend_irecv(p2p_op_list: list[P2POp]) -> list[Work]:
    """Begin to send and receive several messages, and return a `Work` for each.

    Args:
        p2p_op_list: a list of `P2POp` of one group. The order does not matter.
    """
    if not isinstance(p2p_op_list, list) or not all(isinstance(op, P2POp) for op in p2p_op_list):
        raise ValueError("Invalid ``p2p_op_list``. Each op is expected to to be of type ``torch.distributed.P2POp``.")
    if any(op.group is not p2p_op_list[0].group for op in p2p_op_list):
        raise ValueError("All ops need to use the same group.")
    works = []
    for op in p2p_op_list:
        peer = {"group_dst" if op.op is isend else "group_src": op.group_peer}
        works.append(op.op(op.tensor, group=op.group, tag=op.tag, **peer))
    return [work for work in works if work is not None]
