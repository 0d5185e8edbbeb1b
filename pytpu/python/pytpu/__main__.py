"""`python -m pytpu`: runs a program that says `import torch`, as `python` would run it.

`python -m pytpu [options] [-c code | -m module | script | -] [arguments]`. Options before the program are Python's
own, except for `--help` and `--version`. Without a program, the standard input is run, or statements typed at a
terminal.
"""

import os
import sys
import types

import pytpu

HELP = """\
usage: python -m pytpu [options of Python] [-c code | -m module | script | -] [arguments]

Run a program that says `import torch` with pytpu in the place of PyTorch. Without a program, run the standard input, or
the statements that are typed.

Other commands:
  python -m pytpu.aot script.py --topology v5e:2x2  compile the programs of a script for a TPU that is not here
  python -m pytpu.advise script.py                  what would make a script faster on a TPU
  python -m pytpu.distributed.run script.py         start the processes of a job, as torchrun does
Each of them has --help.

Variables of the environment:
  TORCHTPU_PJRT_PLUGIN  the plugin of device tpu: a path, or cpu, cuda, tpu
  TORCHTPU_CACHE_DIR    the folder of compiled programs
All are listed in docs/environment.md."""

# Python's options that take an argument.
_WITH_ARGUMENT = ("-W", "-X", "--check-hash-based-pycs")


def _options(arguments):
    """Return the number of leading arguments that are options of Python itself."""
    count = 0
    while count < len(arguments):
        option = arguments[count]
        if option in ("-", "-c", "-m") or option[:2] in ("-c", "-m") or not option.startswith("-"):
            break
        count += 2 if option in _WITH_ARGUMENT else 1
    return min(count, len(arguments))


def _fresh_main(**attributes):
    """Put an empty module `__main__` in place of this one."""
    module = types.ModuleType("__main__")
    module.__dict__.update(__builtins__=__builtins__, __annotations__={}, **attributes)
    sys.modules["__main__"] = module
    return module.__dict__


def _set_path(first):
    # Python put the current folder there for `-m`, except with `-P` or `PYTHONSAFEPATH`.
    if not getattr(sys.flags, "safe_path", False):
        sys.path[0] = first


def _run(code, name, namespace):
    exec(compile(code, name, "exec", dont_inherit=True) if isinstance(code, (str, bytes)) else code, namespace)


def _run_module(name):
    import runpy

    _fresh_main()
    # `python -m` calls this function, so messages and exit codes are the same.
    runpy._run_module_as_main(name)


def _run_script(path):
    from importlib.machinery import SourceFileLoader
    from pkgutil import get_importer, read_code

    if get_importer(path) is not None and not os.path.isfile(path) or path.endswith((".zip", ".pyz")):
        import runpy

        # A folder or an archive with a `__main__` in it.
        _set_path(os.path.join(os.getcwd(), path))
        _fresh_main()
        runpy._run_module_as_main("__main__", False)
        return
    full = os.path.join(os.getcwd(), path)
    try:
        with open(path, "rb") as file:
            code = read_code(file)
            if code is None:
                file.seek(0)
                code = file.read()
    except OSError as error:
        print(f"{sys.executable}: can't open file {full!r}: [Errno {error.errno}] {error.strerror}", file=sys.stderr)
        sys.exit(2)
    _set_path(os.path.dirname(os.path.realpath(path)))
    _run(code, full, _fresh_main(__file__=full, __cached__=None, __loader__=SourceFileLoader("__main__", full)))


def _run_input():
    from importlib.machinery import BuiltinImporter

    _set_path("")
    namespace = _fresh_main(__loader__=BuiltinImporter, __file__="<stdin>", __cached__=None)
    if sys.stdin is not None and sys.stdin.isatty():
        import code

        try:
            import readline
            import rlcompleter

            readline.set_completer(rlcompleter.Completer(namespace).complete)
            readline.parse_and_bind("tab: complete")
        except ImportError:
            pass
        code.interact(local=namespace, exitmsg="")
    elif sys.stdin is not None:
        _run(sys.stdin.read(), "<stdin>", namespace)


def run_script(path):
    """Run a script as `python -m pytpu script` does, in this process. `-` is the standard input."""
    pytpu.install()
    if path == "-":
        _run_input()
    else:
        _run_script(path)


def main():
    """Run the program of the command line."""
    arguments = sys.argv[1:]
    if arguments[:1] in (["-h"], ["--help"]):
        print(HELP)
        return
    if arguments[:1] in (["-V"], ["--version"]):
        print(f"pytpu {pytpu.__version__} on Python {sys.version.split()[0]}")
        return
    count = _options(arguments)
    if count:
        # A new interpreter, which reads its options itself.
        from subprocess import _args_from_interpreter_flags as flags

        os.execv(sys.executable, [sys.executable, *flags(), *arguments[:count], "-m", "pytpu", *arguments[count:]])
    if arguments[:1] and arguments[0][:2] in ("-c", "-m"):
        kind, value = arguments[0][:2], arguments[0][2:]
        rest = arguments[1:] if value else arguments[2:]
        if not value and len(arguments) < 2:
            print(f"Argument expected for the {kind} option", file=sys.stderr)
            sys.exit(2)
        value = value or arguments[1]
        sys.argv[:] = [kind, *rest]
        pytpu.install()
        if kind == "-m":
            _run_module(value)
        else:
            from importlib.machinery import BuiltinImporter

            _set_path("")
            _run(value, "<string>", _fresh_main(__loader__=BuiltinImporter))
        return
    sys.argv[:] = arguments or [""]
    run_script(arguments[0] if arguments else "-")


def _start():
    try:
        main()
        # An error of device tpu that the program never saw ends it as an exception would.
        pytpu._C._tpu_tell_unread_errors(True)
    except SystemExit:
        raise
    except BaseException as error:
        # Show the program's own frames only, as Python does.
        trace = error.__traceback__
        while trace is not None and trace.tb_frame.f_code.co_filename == __file__:
            trace = trace.tb_next
        sys.excepthook(type(error), error.with_traceback(trace), trace)
        sys.excepthook = lambda *shown: None
        raise


if __name__ == "__main__":
    _start()
