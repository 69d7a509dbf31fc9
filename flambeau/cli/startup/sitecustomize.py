"""Runs first in the Python processes that a program under ``flambeau run`` starts, of any version: the alias, then what it hides."""

import importlib
import os
import sys

_HERE = os.path.dirname(os.path.abspath(__file__))


def _install_alias():
    prefix, _, root = os.environ.get("FLAMBEAU_RUN", "").partition(os.pathsep)
    if prefix != sys.prefix:
        return  # another interpreter, whose packages are not ours
    if root not in sys.path:
        sys.path.append(root)
    # By its file, because importing it by name would load the whole of flambeau in programs that may never use it.
    from importlib import util

    name = "flambeau.cli.run_alias"
    spec = util.spec_from_file_location(name, os.path.join(os.path.dirname(_HERE), "run_alias.py"))
    assert spec is not None and spec.loader is not None
    module = util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    module.install()


def _run_hidden_sitecustomize():
    sys.path[:] = [path for path in sys.path if os.path.abspath(path) != _HERE]
    own = sys.modules.pop("sitecustomize")
    try:
        importlib.import_module("sitecustomize")
    except ImportError as error:
        if getattr(error, "name", "sitecustomize") != "sitecustomize":
            raise
        sys.modules["sitecustomize"] = own


_install_alias()
_run_hidden_sitecustomize()
