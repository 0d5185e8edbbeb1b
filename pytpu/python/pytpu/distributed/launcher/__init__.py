"""Start an agent from a program instead of the command line."""

from .api import LaunchConfig, elastic_launch, launch_agent
