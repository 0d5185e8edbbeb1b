"""Fixtures of the tests of several processes."""

import pytest
from launching import Launcher, until


@pytest.fixture
def launcher(tmp_path):
    """Return what starts agents. At the end of the test, all their processes must have ended."""
    launcher = Launcher(tmp_path)
    try:
        yield launcher
        until(lambda: not launcher.left(), "the end of all processes of the test")
    finally:
        launcher.kill_all()
        for agent in launcher.agents:
            agent.communicate()
