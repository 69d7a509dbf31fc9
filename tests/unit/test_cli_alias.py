"""Under ``flambeau run``, torch and its submodules are flambeau's own modules, in child processes too."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from flambeau.cli import run_alias
from tests.unit.command_line import ROOT, answer, flambeau, script


def test_modules_are_the_same_objects(tmp_path: Path) -> None:
    text = """
        import json, sys
        before = "torch" in sys.modules
        import torch.nn as nn
        from torch import optim
        import torch, flambeau, flambeau.nn, flambeau.optim
        names = [torch.__spec__.name, nn.__spec__.name, nn.__name__]
        same = [torch is flambeau, nn is flambeau.nn, torch.nn is nn, optim is flambeau.optim, sys.modules["torch.nn"] is nn]
        print(json.dumps([before, all(same), names]))
    """
    got = answer(flambeau(tmp_path, "run", script(tmp_path, text)))
    assert got == [True, True, ["flambeau", "flambeau.nn", "flambeau.nn"]]


def test_what_is_missing_says_so(tmp_path: Path) -> None:
    text = """
        import importlib.util, json
        def message(code):
            try:
                exec(code)
            except ImportError as error:
                return [type(error).__name__, error.name, str(error)]
        print(json.dumps([
            message("import torch.no_such_part"), message("import torch.no_such_part.inner"),
            message("from torch import no_such_name")[0],
            importlib.util.find_spec("torch.no_such_part") is None, importlib.util.find_spec("torch.nn") is not None,
        ]))
    """
    name = "torch.no_such_part"
    message = f"No module named {name!r}: torch is flambeau in this process, and flambeau has no module 'flambeau.no_such_part'."
    error = ["ModuleNotFoundError", name, message]
    assert answer(flambeau(tmp_path, "run", script(tmp_path, text))) == [error, error, "ImportError", True, True]


def test_the_installed_version_is_answered(tmp_path: Path) -> None:
    text = """
        import json
        from importlib import metadata
        import torch
        from torch.torch_version import TorchVersion
        print(json.dumps([
            metadata.version("torch"), metadata.metadata("Torch")["Name"], "torch" in metadata.packages_distributions(),
            torch.__version__, torch.__version__ >= (2, 4), torch.__name__,
        ]))
    """
    assert answer(flambeau(tmp_path, "run", script(tmp_path, text))) == [
        run_alias.TORCH_VERSION, "torch", True, run_alias.TORCH_VERSION, True, "torch",
    ]  # fmt: skip


def test_an_installed_torch_is_left_alone(tmp_path: Path) -> None:
    script(tmp_path, "raise ImportError('the other torch')", "site/torch/__init__.py")
    script(tmp_path, "value = 1", "site/torch/special_part.py")
    before = {path: path.read_bytes() for path in (tmp_path / "site").rglob("*") if path.is_file()}
    text = """
        import importlib.util, json, torch
        print(json.dumps([torch.__spec__.name, str(importlib.util.find_spec("torch.special_part"))]))
    """
    got = answer(flambeau(tmp_path, "run", script(tmp_path, text), PYTHONPATH=str(tmp_path / "site")))
    assert got == ["flambeau", "None"]
    assert {path: path.read_bytes() for path in (tmp_path / "site").rglob("*") if path.is_file()} == before


def test_a_torch_that_is_in_use_is_not_replaced(tmp_path: Path) -> None:
    script(tmp_path, "", "site/torch/__init__.py")
    text = """
        import json, sys
        sys.path.insert(0, sys.argv[1])
        import torch
        from flambeau.cli import run_alias
        try:
            run_alias.install()
        except RuntimeError as error:
            print(json.dumps(str(error)))
    """
    command = [sys.executable, script(tmp_path, text), str(tmp_path / "site")]
    run = subprocess.run(command, cwd=tmp_path, env=os.environ | {"PYTHONPATH": str(ROOT)}, capture_output=True, text=True)
    assert str(answer(run)).startswith("torch has already been imported from ")


def test_subprocesses_have_the_alias(tmp_path: Path) -> None:
    script(tmp_path, "import torch; print(torch.__spec__.name)", "child.py")
    text = """
        import subprocess, sys
        subprocess.run([sys.executable, "child.py"], check=True)
        subprocess.run([sys.executable, "-m", "child"], check=True)
        loads = "import sys; print('flambeau' in sys.modules); import torch.nn as nn; print(nn.__name__, sys.modules['flambeau.nn'] is nn)"
        subprocess.run([sys.executable, "-c", loads], check=True)
        grandchild = "import subprocess, sys; subprocess.run([sys.executable, 'child.py'], check=True)"
        subprocess.run([sys.executable, "-c", grandchild], check=True)
        alias = "import torch; from flambeau.cli import run_alias as a, main; import sys; print(a is main.run_alias)"
        subprocess.run([sys.executable, "-c", alias], check=True)
    """
    run = flambeau(tmp_path, "run", script(tmp_path, text))
    assert run.stdout.split("\n") == ["flambeau", "flambeau", "False", "flambeau.nn True", "flambeau", "True", ""], run.stderr


@pytest.mark.parametrize("method", ["spawn", "fork", "forkserver"])
@pytest.mark.parametrize("as_module", [False, True])
def test_multiprocessing_has_the_alias(tmp_path: Path, method: str, as_module: bool) -> None:
    text = """
        import multiprocessing, sys
        import torch.nn
        def work(x):
            import torch, flambeau
            return x, torch is flambeau, torch.nn is flambeau.nn, __name__
        if __name__ == "__main__":
            with multiprocessing.get_context(sys.argv[1]).Pool(1) as pool:
                print(pool.map(work, [4]))
    """
    name = script(tmp_path, text)
    program = ["-m", "program"] if as_module else [name]
    main = "__main__" if method == "fork" else "__mp_main__"
    run = flambeau(tmp_path, "run", *program, method)
    assert run.stdout == f"[(4, True, True, {main!r})]\n", run.stderr


@pytest.mark.parametrize("runner", [["-m", "pytest", "-q", "-p", "no:cacheprovider"], ["-m", "unittest"]])
@pytest.mark.parametrize("as_child", [False, True])
def test_test_runners_have_the_alias(tmp_path: Path, runner: list[str], as_child: bool) -> None:
    text = """
        import unittest
        import torch.nn
        class Test(unittest.TestCase):
            def test_torch(self):
                self.assertEqual((torch.__spec__.name, torch.nn.__name__), ("flambeau", "flambeau.nn"))
    """
    script(tmp_path, text, "test_alias.py")
    if as_child:
        call = f"import subprocess, sys; sys.exit(subprocess.run([sys.executable, *{runner!r}, 'test_alias.py']).returncode)"
        run = flambeau(tmp_path, "run", script(tmp_path, call))
    else:
        run = flambeau(tmp_path, "run", *runner, "test_alias.py")
    assert run.returncode == 0, run.stdout + run.stderr
    assert "1 passed" in run.stdout or "Ran 1 test" in run.stderr


def test_a_hidden_sitecustomize_still_runs(tmp_path: Path) -> None:
    script(tmp_path, "import os; os.environ['HIDDEN'] = __file__", "site/sitecustomize.py")
    child = "import os, sys, torch; print(os.environ['HIDDEN'], sys.modules['sitecustomize'].__file__, torch.__spec__.name)"
    name = script(tmp_path, f"import subprocess, sys; subprocess.run([sys.executable, '-c', {child!r}], check=True)")
    run = flambeau(tmp_path, "run", name, PYTHONPATH=str(tmp_path / "site"))
    hidden = str(tmp_path / "site" / "sitecustomize.py")
    assert run.stdout == f"{hidden} {hidden} flambeau\n", run.stderr


def test_another_interpreter_does_not_get_the_alias(tmp_path: Path) -> None:
    environment = {run_alias.VARIABLE: f"/another/prefix{os.pathsep}{ROOT}", "PYTHONPATH": str(run_alias.STARTUP)}
    child = "import sys; print([f for f in sys.meta_path if 'Alias' in repr(f)], [p for p in sys.path if 'startup' in p])"
    run = subprocess.run([sys.executable, "-c", child], cwd=tmp_path, env=os.environ | environment, capture_output=True, text=True)
    assert (run.stdout, run.stderr) == ("[] []\n", "")


def test_environment_is_added_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", f"{os.pathsep}/a{os.pathsep}/b")
    monkeypatch.delenv(run_alias.VARIABLE, raising=False)
    run_alias.share_with_children()
    run_alias.share_with_children()
    assert os.environ["PYTHONPATH"] == os.pathsep.join([str(run_alias.STARTUP), "/a", "/b"])
    assert os.environ[run_alias.VARIABLE] == f"{sys.prefix}{os.pathsep}{ROOT}"
