"""The programs that capture is tested with do in eager mode what they do on PyTorch."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.capture.corpus import PROGRAMS
from tests.capture.corpus.harness import Side, difference

DIFFER = {
    "derivatives_nest": "PyTorch warns of a function that it uses itself",
    "sparse_product_in_a_layer": "PyTorch warns that sparse tensors are not checked",
    "function_argument": "functions are functions of Python here",
    "inference_mode": "results of inference mode do not say that they are",
    "step_adam": "parameters of a group share their step count",
    "step_adamw_weight_decay": "parameters of a group share their step count",
    "step_adamw_without_foreach": "parameters of a group share their step count",
    "step_with_hooks_of_parameters": "PyTorch reaches the bias of a linear layer before its weight",
    "step_with_hooks_that_need_values": "PyTorch reaches the bias of a linear layer before its weight",
    "step_with_hooks_set_inside": "PyTorch reaches the bias of a linear layer before its weight",
    "step_skipped_when_not_finite": "parameters of a group share their step count",
    "step_with_clipping": "parameters of a group share their step count",
    "step_sgd_momentum": "the state of a parameter is a dictionary that counts its changes",
    "step_muon_with_other_settings": "products in bfloat16 are rounded once, not after each part",
    "autocast_inside": "products in bfloat16 are rounded once, not after each part",
    "autocast_with_a_scaler_on_the_processor": "products in bfloat16 are rounded once, not after each part",
    "checkpoints_saved_and_loaded_in_the_middle": "parameters of a group share their step count",
    "step_with_a_line_search": "rounding, which a search for a step enlarges",
    "branches_by_cond": "PyTorch compiles in cond, and gives no gradients where compile is left out",
    "functions_along_a_dimension": "PyTorch's own run compiled only",
    "arguments_unpacked_into_a_module": "a second backward that fails has reached the bias there, and has changed nothing here",
    "complex_views_written_and_differentiated": "conj() is a view there, so that what was saved of it is overwritten",
    "gradient_modes_nested": "results of inference mode do not say that they are",
    "gradients_of_rotations": "the strides of a gradient",
    "windows_with_a_changing_distance": "PyTorch refuses operands that overlap the result, which are read first here",
}


@pytest.fixture(scope="module")
def on_pytorch(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """By program, what its calls do on PyTorch."""
    path = tmp_path_factory.mktemp("corpus") / "pictures"
    root = Path(__file__).resolve().parents[2]
    command = [sys.executable, "-m", "tests.conformance.plain_corpus", str(path)]
    subprocess.run(command, cwd=root, env=os.environ | {"PYTHONPATH": str(root)}, check=True, timeout=280)
    return pickle.loads(path.read_bytes())


def plain(picture: Any) -> Any:
    """Without the texts of errors, which say more here, and in PyTorch's names."""
    if isinstance(picture, str):
        return {"Device": "device"}.get(picture, picture.replace("flambeau", "torch"))
    if not isinstance(picture, tuple):
        return picture
    if len(picture) > 4 and isinstance(picture[3], str) and picture[3].startswith(("torch.", "flambeau.")):  # a tensor
        shape, strides = picture[2], picture[4]  # along an axis of size 1 any stride does
        picture = (*picture[:4], tuple([n if size > 1 else 0 for size, n in zip(shape, strides, strict=True)]), *picture[5:])
    if len(picture) == 4 and isinstance(picture[0], str) and picture[0].endswith("Error"):
        return picture[0]
    return tuple(map(plain, picture))


@pytest.mark.parametrize("name", [pytest.param(n, marks=[pytest.mark.xfail(reason=DIFFER[n])] if n in DIFFER else []) for n in PROGRAMS])
def test_program_does_the_same_on_pytorch(name: str, on_pytorch: dict[str, Any]) -> None:
    own = Side(PROGRAMS[name], "function", lambda f: f).run()
    for number, (want, got) in enumerate(zip(on_pytorch[name], own, strict=True)):
        found = difference(plain(tuple(want)), plain(tuple(got)), 1e-5)
        assert found is None, f"call {number}{found}"
