"""`python -m pytpu.distributed.run`: start the processes of a job, as PyTorch's `torchrun` does.

On one machine, `--standalone --nproc-per-node 4 script.py` starts four workers. `docs/distributed.md` describes
several machines, restarts and log files.
"""

from __future__ import annotations

import os
import select
import signal
import sys
import uuid
from argparse import REMAINDER, Action, ArgumentParser, Namespace
from collections.abc import Callable, Sequence
from typing import Any

from .argparse_util import check_env, env
from .elastic.multiprocessing import DefaultLogsSpecs, LogsSpecs, Std
from .elastic.multiprocessing.errors import record
from .elastic.rendezvous.utils import settings_from_text
from .elastic.utils import macros
from .elastic.utils.logging import get_logger, show_messages
from .launcher.api import LaunchConfig, elastic_launch

# Under `python -m` the name of this module is `__main__`.
logger = get_logger(f"{get_logger.__module__.partition('.elastic')[0]}.run")

_SHELLS = ("bash", "zsh", "tcsh")
_COUNT_SECONDS = 120


class _PrintCompletion(Action):
    def __call__(self, parser, namespace, values, option_string=None):
        try:
            import shtab
        except ImportError:
            parser.exit(1, f"{option_string} requires the 'shtab' package: pip install shtab\n")
        parser.prog = "torchrun"
        print(shtab.complete(parser, shell=values))
        parser.exit()


def _comma_separated(text: str) -> list[str]:
    """Return the parts of a text. Two commas stand for a comma in a part."""
    return [part.replace("\0", ",") for part in text.replace(",,", "\0").split(",")]


def get_args_parser() -> ArgumentParser:
    """Return the parser of the command line. Options with a value, and most flags, have defaults in `PET_<NAME>`."""
    parser = ArgumentParser(description="Start the processes of a job, and start them again after a failure.")

    def add(*names, action=env, **settings):
        # Each long option is also understood with underscores.
        also = [name.replace("-", "_").replace("__", "--", 1) for name in names if "-" in name[2:]]
        parser.add_argument(*names, *also, action=action, **settings)

    add("--nnodes", default="1:1", help="Number of nodes, or the lowest and the highest number as MIN:MAX.")
    add(
        "--nproc-per-node",
        default="1",
        help="Workers of each node: a number, or the number of devices: cpu, gpu, xpu, tpu, or auto.",
    )
    add("--rdzv-backend", default="static", help="How nodes meet: static, or c10d for nodes that come and go.")
    add("--rdzv-endpoint", default="", help="HOST:PORT of the store of the rendezvous.")
    add("--rdzv-id", default="none", help="Name of the job.")
    add("--rdzv-conf", default="", help="Settings of the rendezvous: KEY=VALUE,KEY=VALUE.")
    add(
        "--standalone",
        action=check_env,
        help="One node, whose rendezvous is at a free port. The other options of the rendezvous are ignored.",
    )
    add("--max-restarts", type=int, default=0, help="How often the workers are started again after a failure.")
    add("--monitor-interval", type=float, default=0.1, help="Seconds between two looks at the workers.")
    add(
        "--start-method",
        default="spawn",
        choices=["spawn", "fork", "forkserver"],
        help="How the processes of --run-path are made.",
    )
    add("--event-log-handler", default="null", help="Handler of events: null, console, or a registered one.")
    add("--role", default="default", help="Name of the role of the workers.")
    add("-m", "--module", action=check_env, help="Run the script as a module, as python -m does.")
    add("--no-python", action=check_env, help="Run the script itself, without python.")
    add("--run-path", action=check_env, help="Run the script with runpy in processes that multiprocessing makes.")
    add("--log-dir", default=None, help="Folder for log files. Each job has a folder in it.")
    add(
        "-r",
        "--redirects",
        default="0",
        help="Streams that go to log files: 1 output, 2 errors, 3 both, or 0:3,1:1 for single local ranks.",
    )
    add("-t", "--tee", default="0", help="Streams that go to log files and to the console, as for --redirects.")
    add(
        "--log-line-prefix-template",
        default="",
        help="Beginning of lines of --tee, with ${role_name}, ${rank}, ${local_rank} and ${hostname}. The default is "
        "[${role_name}${local_rank}]:",
    )
    add("--local-ranks-filter", default="", help="Local ranks that are shown on the console, such as 0,2.")
    for stream in ("stdout", "stderr"):
        add(
            f"--duplicate-{stream}-filters",
            type=_comma_separated,
            default=[],
            help=f"Texts, separated by commas. Lines of --tee with one of them go to filtered_{stream}.log too.",
        )
    add("--node-rank", type=int, default=0, help="Rank of this node, for static.")
    add("--master-addr", default="127.0.0.1", help="Host of node 0, for static.")
    add("--master-port", type=int, default=None, help="Port of the store of node 0, for static. 29500 by default.")
    add("--local-addr", default=None, help="Address of this node for the others. By default it is found.")
    add("--logs-specs", action="store", default=None, help="Entry point in the group torchrun.logs_specs.")
    add(
        "--numa-binding",
        action="store",
        default=None,
        choices=["node", "socket", "exclusive", "core-complex"],
        help="Refused: workers are not bound to processors.",
    )
    add(
        "--signals-to-handle",
        default="SIGTERM,SIGINT,SIGHUP,SIGQUIT",
        help="Signals that are passed on to the workers, separated by commas.",
    )
    add(
        "--shutdown-timeout",
        type=int,
        default=None,
        help="Seconds from a signal to the workers until they are killed. By default "
        "TORCH_ELASTIC_SHUTDOWN_TIMEOUT, or 30.",
    )
    add("--virtual-local-rank", action=check_env, help="Each worker sees one GPU, with local rank 0.")
    add(
        "--print-completion",
        action=_PrintCompletion,
        choices=_SHELLS,
        help="Print completions of this command for a shell. It needs the package shtab.",
    )
    parser.add_argument("training_script", help="The program of the workers.")
    parser.add_argument("training_script_args", nargs=REMAINDER, help="Arguments of the program.")
    return parser


def parse_args(args: Sequence[str] | None) -> Namespace:
    """Return the values of the options.

    Args:
        args: the command line, without the name of the program. `None` takes the one of this process.
    """
    return get_args_parser().parse_args(args)


def parse_min_max_nnodes(nnodes: str) -> tuple[int, int]:
    """Return the lowest and the highest number of nodes.

    Args:
        nnodes: a number, or two with a colon between them.

    Raises:
        RuntimeError: for another text.
    """
    numbers = [int(number) for number in nnodes.split(":")]
    if len(numbers) > 2:
        raise RuntimeError(f'nnodes={nnodes} is not in "MIN:MAX" format')
    return numbers[0], numbers[-1]


def _device_count(devices: Any) -> int:
    """Return the number of devices of a module such as `torch.tpu`.

    A forked process asks. Asking takes the devices, and they must be free for the workers.
    """
    from .. import tpu

    def count():
        return devices.device_count() if devices.is_available() else 0

    if tpu.is_initialized():
        return count()
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.write(writer, str(count()).encode())
        finally:
            os._exit(0)
    os.close(writer)
    try:
        if not select.select([reader], [], [], _COUNT_SECONDS)[0]:
            os.kill(child, signal.SIGKILL)
        answer = os.read(reader, 32)
    finally:
        os.close(reader)
        os.waitpid(child, 0)
    if not answer:
        raise RuntimeError(f"--nproc-per-node: the devices could not be counted within {_COUNT_SECONDS} s")
    return int(answer)


def determine_local_world_size(nproc_per_node: str) -> int:
    """Return the number of workers of a node.

    Args:
        nproc_per_node: a number, `cpu`, `gpu`, `xpu`, `tpu` or `auto`.

    Raises:
        ValueError: if there is no such device, or for another text.
    """
    try:
        return int(nproc_per_node)
    except ValueError as error:
        reason = error
    from .. import _utils, accelerator, cuda, tpu, xpu

    kind = nproc_per_node
    if kind == "cpu":
        n = _utils.cpu_count()
    elif kind == "auto":
        n = _device_count(accelerator) or _utils.cpu_count()
    elif kind in ("gpu", "xpu", "tpu"):
        devices, name = {"gpu": (cuda, "Cuda"), "xpu": (xpu, "Xpu"), "tpu": (tpu, "tpu")}[kind]
        n = _device_count(devices)
        if n == 0:
            raise ValueError(f"{name} is not available.") from reason
    else:
        raise ValueError(f"Unsupported nproc_per_node value: {nproc_per_node}") from reason
    logger.info("--nproc-per-node=%s: %s workers", nproc_per_node, n)
    return n


def get_rdzv_endpoint(args: Namespace) -> str:
    """Return the address of the store of the rendezvous."""
    if args.rdzv_backend == "static" and not args.rdzv_endpoint:
        return f"{args.master_addr}:{args.master_port}"
    return args.rdzv_endpoint


def get_use_env(args: Namespace) -> bool:
    """Return whether the workers read `LOCAL_RANK`. Those of `torch.distributed.launch` get `--local-rank`."""
    return getattr(args, "use_env", True)


def _get_logs_specs_class(name: str | None) -> type[LogsSpecs]:
    if name is None:
        return DefaultLogsSpecs
    group = sys.modules[__name__].metadata.entry_points().select(group="torchrun.logs_specs")
    if not group.select(name=name):
        raise ValueError(f"Could not find entrypoint under 'torchrun.logs_specs[{name}]' key")
    return group[name].load()


def __getattr__(name: str) -> Any:
    # Only `--logs-specs` searches installed packages. The import takes a tenth of the time of a start.
    if name == "metadata":
        from importlib import metadata

        return metadata
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def _limit_threads(n: int) -> None:
    """Set `OMP_NUM_THREADS`: several workers that each use all processors slow each other down."""
    if "OMP_NUM_THREADS" in os.environ or n <= 1:
        return
    logger.warning(
        "OMP_NUM_THREADS is not set. Each of the %s workers gets OMP_NUM_THREADS=1, so that they do not compete for "
        "processors. Set the variable to the best number for your program.",
        n,
    )
    os.environ["OMP_NUM_THREADS"] = "1"


def config_from_args(args: Namespace) -> tuple[LaunchConfig, Callable[..., Any] | str, list[str]]:
    """Return the settings of the agent, the command of the workers, and its arguments.

    Args:
        args: the values of the options.

    Raises:
        ValueError: if options do not go together.
    """
    min_nodes, max_nodes = parse_min_max_nnodes(args.nnodes)
    if not 0 < min_nodes <= max_nodes:
        raise AssertionError(
            f"min_nodes must be > 0 and <= max_nodes, got min_nodes={min_nodes}, max_nodes={max_nodes}"
        )
    if args.max_restarts < 0:
        raise AssertionError("max_restarts must be >= 0")
    if args.numa_binding is not None:
        raise NotImplementedError("--numa-binding: workers are not bound to processors")
    if args.rdzv_backend != "static":
        if not args.rdzv_endpoint:
            logger.warning("--master-addr is only used with --rdzv-backend=static")
        if args.node_rank != 0:
            logger.warning("--node-rank is not used with --rdzv-backend=%s", args.rdzv_backend)
    nproc_per_node = determine_local_world_size(args.nproc_per_node)
    _limit_threads(nproc_per_node)
    rdzv_configs: dict[str, Any] = dict(settings_from_text(args.rdzv_conf))
    if args.rdzv_backend == "static":
        rdzv_configs["rank"] = args.node_rank
    ranks = None
    if args.local_ranks_filter:
        try:
            ranks = {int(rank) for rank in args.local_ranks_filter.split(",")}
        except ValueError as error:
            raise ValueError(
                "--local_ranks_filter must be a comma-separated list of integers e.g. --local_ranks_filter=0,1,2"
            ) from error
    logs_specs = _get_logs_specs_class(args.logs_specs)(
        log_dir=args.log_dir,
        redirects=Std.from_str(args.redirects),
        tee=Std.from_str(args.tee),
        local_ranks_filter=ranks,
    )
    template = args.log_line_prefix_template or os.environ.get("TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE")
    config = LaunchConfig(
        min_nodes=min_nodes,
        max_nodes=max_nodes,
        nproc_per_node=nproc_per_node,
        run_id=args.rdzv_id,
        role=args.role,
        rdzv_endpoint=get_rdzv_endpoint(args),
        rdzv_backend=args.rdzv_backend,
        rdzv_configs=rdzv_configs,
        max_restarts=args.max_restarts,
        monitor_interval=args.monitor_interval,
        start_method=args.start_method,
        log_line_prefix_template=template,
        local_addr=args.local_addr,
        logs_specs=logs_specs,
        event_log_handler=args.event_log_handler,
        signals_to_handle=args.signals_to_handle,
        duplicate_stdout_filters=args.duplicate_stdout_filters,
        duplicate_stderr_filters=args.duplicate_stderr_filters,
        virtual_local_rank=args.virtual_local_rank,
        shutdown_timeout=args.shutdown_timeout,
    )
    return config, *_command(args)


def _command(args):
    """Return the command of the workers, and its arguments."""
    own = [] if get_use_env(args) else [f"--local-rank={macros.local_rank}"]
    own += args.training_script_args
    if args.run_path:
        return run_script_path, [args.training_script, *own]
    if args.no_python:
        if args.module:
            raise ValueError("Don't use both the '--no-python' flag and the '--module' flag at the same time.")
        return args.training_script, own
    python = ["-u", "-m"] if args.module else ["-u"]
    return os.environ.get("PYTHON_EXEC", sys.executable), [*python, args.training_script, *own]


def run_script_path(training_script: str, *training_script_args: str) -> None:
    """Run a script in this process.

    Args:
        training_script: path of the script.
        *training_script_args: its arguments.
    """
    import runpy

    sys.argv = [training_script, *training_script_args]
    runpy.run_path(training_script, run_name="__main__")


def run(args: Namespace) -> None:
    """Run an agent and its workers.

    Args:
        args: the values of the options.

    Raises:
        ChildFailedError: if the workers failed too often.
        SignalException: if the agent gets a signal.
    """
    has_place = args.rdzv_backend != "static" or args.rdzv_endpoint or args.master_port is not None
    is_alone = not has_place and parse_min_max_nnodes(args.nnodes)[1] == 1
    if args.standalone or is_alone:
        # A free port: several jobs on one machine do not disturb each other.
        args.rdzv_backend = "c10d"
        args.rdzv_endpoint = "localhost:0"
        args.rdzv_id = str(uuid.uuid4())
    if args.master_port is None:
        args.master_port = 29500
    config, command, command_args = config_from_args(args)
    elastic_launch(config, command)(*command_args)


@record
def main(args: Sequence[str] | None = None) -> None:
    """Run the command line.

    Args:
        args: the command line, without the name of the program. `None` takes the one of this process.
    """
    show_messages()
    run(parse_args(args))


if __name__ == "__main__":
    import pytpu

    # Workers inherit the name, so they may say `import torch`.
    pytpu.install()
    main()
