"""The command that counts PyTorch's names, and the names that programs use."""

from __future__ import annotations

import pytest

from flambeau.cli import api
from flambeau.cli.main import main

NAMES = api.torch_names()
# Names that several programs use and that are not there yet, by the part that is missing.
NOT_YET = (
    "torch.distributed.checkpoint", "torch.distributed.device_mesh", "torch.distributed.fsdp", "torch.distributed.tensor", "torch.float8_",
    "torch._scaled_mm", "torch.Tensor.indices", "torch.Tensor.values", "torch.Tensor.to_sparse", "torch.amp", "torch.autocast",
    "torch.cuda.amp", "torch.distributions", "torch.profiler", "torch.multiprocessing", "torch.backends.cuda.sdp_kernel",
)  # fmt: skip


def test_the_list_has_names_parameters_and_uses() -> None:
    linear = next(name for name in NAMES if name.path == "torch.nn.Linear")
    assert linear.programs > 40 and linear.forms[0].startswith("(in_features, out_features, bias=True")
    assert len(NAMES) > 2800 and len({name.path for name in NAMES}) == len(NAMES)


def test_names_are_found_by_path() -> None:
    import flambeau

    assert api.find("torch.nn.functional.relu") is flambeau.nn.functional.relu
    with pytest.raises(AttributeError, match="there is no nothing"):
        api.find("torch.nn.nothing")


def test_what_several_programs_use_is_there() -> None:
    used = [name for name in NAMES if name.programs >= 2]
    assert [name.path for name in api.missing(used) if not name.path.startswith(NOT_YET)] == []


WHOLE = (
    "torch.nn", "torch.optim", "torch.optim.lr_scheduler", "torch.optim.swa_utils", "torch.nn.init", "torch.nn.utils", "torch.hub",
    "torch.nn.utils.parametrize", "torch.nn.utils.parametrizations", "torch.nn.utils.prune", "torch.nn.parallel", "torch.jit",
)  # fmt: skip


@pytest.mark.parametrize("section", WHOLE)
def test_parts_that_are_whole_lack_only_what_is_known(section: str) -> None:
    known = {
        "torch.nn": {"Container", "intrinsic", "qat", "common_types"}, "torch.jit": {"export_opnames"},
        "torch.optim": {"swap_in_optimizer_params_and_state"}, "torch.nn.utils": {"stateless"},
    }  # fmt: skip
    absent = {name.name for name in api.missing(name for name in NAMES if name.section == section)}
    assert absent <= known.get(section, set())


def test_the_command_counts_by_module(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["api", "--module", "torch.optim"]) == 0
    shown = capsys.readouterr().out
    assert "torch.optim" in shown and "torch.nn" not in shown
    assert main(["api", "--missing"]) == 0
    shown = capsys.readouterr().out
    assert "in all" in shown and "programs)" in shown
    with pytest.raises(ValueError, match="the modules are"):
        main(["api", "--module", "torch.nothing"])
