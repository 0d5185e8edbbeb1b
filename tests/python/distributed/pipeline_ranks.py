"""Ranks of a pipeline as threads of one process, for the tests of schedules."""

import collections
import pickle
import queue
import threading

import pytpu as torch
from pytpu.distributed.pipelining._transport import _Transport

LIMIT = 60  # Seconds after which a message that does not come fails a test.


class _Sent:
    def wait(self):
        """Return at once: the message has been copied."""


class _Receiving:
    """A receive. Messages of a rank go to its receives in the order in which these were posted, not waited for."""

    def __init__(self, messages, posted, buffer):
        self._messages, self._posted, self._buffer = messages, posted, buffer
        self._done = False
        posted.append(self)

    def wait(self):
        while not self._done:
            first = self._posted.popleft()
            message = _take(self._messages)
            assert message.shape == first._buffer.shape and message.dtype == first._buffer.dtype
            with torch.no_grad():
                first._buffer.copy_(message)
            first._done = True


def _take(messages):
    try:
        return messages.get(timeout=LIMIT)
    except queue.Empty:
        raise TimeoutError("no message came") from None


class ThreadTransport(_Transport):
    """Messages between threads."""

    def __init__(self, rank, size, queues, barrier, votes):
        self.rank, self.size = rank, size
        self._queues, self._barrier, self._votes = queues, barrier, votes
        self._posted = [collections.deque() for _ in range(size)]

    def send_op(self, tensor, peer):
        assert tensor.is_contiguous() and not tensor.requires_grad
        return ("send", tensor, peer)

    def recv_op(self, buffer, peer):
        return ("recv", buffer, peer)

    def post(self, ops):
        works = []
        for kind, tensor, peer in ops:
            if kind == "send":
                self._queues[self.rank, peer].put(tensor.clone())
                works.append(_Sent())
            else:
                works.append(_Receiving(self._queues[peer, self.rank], self._posted[peer], tensor))
        return works

    def send_object(self, value, peer):
        self._queues[self.rank, peer].put(pickle.dumps(value))

    def recv_object(self, peer):
        return pickle.loads(_take(self._queues[peer, self.rank]))

    def all(self, flag):
        self._votes[self.rank] = flag
        self._barrier.wait(LIMIT)
        result = all(self._votes)
        self._barrier.wait(LIMIT)
        return result


def run_ranks(size, body):
    """Run `body(transport)` in a thread for each rank. Return the results, or raise the first error of a rank."""
    queues = {(source, target): queue.Queue() for source in range(size) for target in range(size)}
    barrier, votes = threading.Barrier(size), [True] * size
    results, errors = [None] * size, []

    def run(rank):
        try:
            results[rank] = body(ThreadTransport(rank, size, queues, barrier, votes))
        except BaseException as error:
            errors.append(error)
            barrier.abort()

    threads = [threading.Thread(target=run, args=(rank,), daemon=True) for rank in range(size)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(LIMIT * 2)
        assert not thread.is_alive(), "a rank does not end"
    if errors:
        raise next((error for error in errors if not isinstance(error, threading.BrokenBarrierError)), errors[0])
    return results
