"""Fixtures of tests with several processes."""

import pytest
from rank_pool import RankPool


@pytest.fixture(scope="module")
def pools(request):
    """Return a function from a number of ranks to a pool, which is started once for the file."""
    made = {}

    def pool(size):
        if size not in made:
            made[size] = RankPool(size, request.module.__name__).start()
        return made[size]

    yield pool
    for each in made.values():
        each.close()


@pytest.fixture(params=[2, 4])
def pool(request, pools):
    """Return a pool of 2 and of 4 ranks."""
    return pools(request.param)


@pytest.fixture(scope="module")
def fresh(request):
    """Return a function that makes a new group of 3 ranks, for a test that breaks it."""
    made = []

    def pool(timeout=60):
        if made and not any(rank.process.poll() is None for rank in made[-1].ranks):
            made.pop().close()
        if made:
            made[-1].stop()
        else:
            made.append(RankPool(3, request.module.__name__))
        return made[-1].start(timeout)

    yield pool
    for each in made:
        each.close()
