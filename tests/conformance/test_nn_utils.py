"""torch.nn.utils: parametrized, normalized, pruned and fused weights are PyTorch's from the same seed, and states travel both ways."""

from __future__ import annotations

import copy
import io
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.utils.prune

import flambeau

RNG = np.random.default_rng()
LIBRARIES = (flambeau, torch)


def symmetric(library: Any) -> Any:
    class Symmetric(library.nn.Module):
        def forward(self, x: Any) -> Any:
            return x.triu() + x.triu(1).mT

        def right_inverse(self, a: Any) -> Any:
            return a.triu()

    return Symmetric()


def pair(library: Any) -> Any:
    class Pair(library.nn.Module):
        def forward(self, a: Any, b: Any) -> Any:
            return a * b

        def right_inverse(self, x: Any) -> Any:
            return x.abs(), x.sign()

    return Pair()


def parametrized(library: Any, name: str, make: Callable[..., Any], rows: int = 4, columns: int = 4) -> Any:
    module = library.nn.Linear(columns, rows)
    return library.nn.utils.parametrize.register_parametrization(module, name, make(library))


MODULES: dict[str, Callable[[Any], Any]] = {
    "symmetric": lambda t: parametrized(t, "weight", symmetric), "pair": lambda t: parametrized(t, "weight", pair, 3),
    "twice": lambda t: t.nn.utils.parametrize.register_parametrization(parametrized(t, "weight", symmetric), "weight", symmetric(t)),
    "weight_norm": lambda t: t.nn.utils.weight_norm(t.nn.Linear(4, 3)),
    "weight_norm all": lambda t: t.nn.utils.weight_norm(t.nn.Linear(4, 3), dim=None),
    "weight_norm parametrization": lambda t: t.nn.utils.parametrizations.weight_norm(t.nn.Linear(4, 3)),
    "weight_norm parametrization all": lambda t: t.nn.utils.parametrizations.weight_norm(t.nn.Linear(4, 3), dim=None),
    "spectral_norm": lambda t: t.nn.utils.spectral_norm(t.nn.Linear(4, 3), n_power_iterations=2),
    "spectral_norm transposed": lambda t: t.nn.Sequential(
        t.nn.Unflatten(1, (2, 2)), t.nn.utils.spectral_norm(t.nn.ConvTranspose1d(2, 3, 2))),
    "spectral_norm parametrization": lambda t: t.nn.utils.parametrizations.spectral_norm(t.nn.Linear(4, 3)),
    "spectral_norm bias": lambda t: t.nn.utils.parametrizations.spectral_norm(t.nn.Linear(4, 3), "bias"),
    **{f"orthogonal {kind} {rows}": lambda t, kind=kind, rows=rows: t.nn.utils.parametrizations.orthogonal(
        t.nn.Linear(4, rows), orthogonal_map=kind) for kind in (None, "matrix_exp", "cayley", "householder") for rows in (4, 6, 3)},
    "orthogonal plain": lambda t: t.nn.utils.parametrizations.orthogonal(
        t.nn.Linear(4, 6), orthogonal_map="householder", use_trivialization=False),
    "l1_unstructured": lambda t: t.nn.utils.prune.l1_unstructured(t.nn.Linear(4, 3), "weight", 0.3),
    "random_unstructured": lambda t: t.nn.utils.prune.random_unstructured(t.nn.Linear(4, 3), "weight", 5),
    "ln_structured": lambda t: t.nn.utils.prune.ln_structured(t.nn.Linear(4, 3), "weight", 1, n=2, dim=0),
    "ln_structured inf": lambda t: t.nn.utils.prune.ln_structured(t.nn.Linear(4, 3), "weight", 2, n=math.inf, dim=1),
    "random_structured": lambda t: t.nn.utils.prune.random_structured(t.nn.Linear(4, 3), "weight", 0.4, dim=1),
    "pruned twice": lambda t: t.nn.utils.prune.ln_structured(
        t.nn.utils.prune.l1_unstructured(t.nn.Linear(4, 3), "weight", 3), "weight", 1, n=1, dim=1),
    "pruned by a mask": lambda t: t.nn.utils.prune.custom_from_mask(t.nn.Linear(4, 3), "bias", t.tensor([1, 0, 1])),
    "identity": lambda t: t.nn.utils.prune.identity(t.nn.Linear(4, 3), "weight"),
}  # fmt: skip


def trained(library: Any, name: str, x: np.ndarray) -> tuple[Any, list[np.ndarray]]:
    library.manual_seed(5)
    module = MODULES[name](library)
    optimizer = library.optim.SGD(module.parameters(), lr=0.1)
    found = []
    for _ in range(3):
        optimizer.zero_grad()
        out = module(library.tensor(x))
        out.square().sum().backward()
        optimizer.step()
        found.append(out.detach().numpy())
    module.eval()
    found.append(module(library.tensor(x)).detach().numpy())
    return module, found


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", MODULES)
def test_layers_with_changed_weights_train_as_pytorchs(name: str) -> None:
    x = RNG.normal(size=(5, 4)).astype("f")
    (ours, found), (theirs, wanted) = (trained(library, name, x) for library in LIBRARIES)
    assert repr(ours) == repr(theirs)
    for a, b in zip(found, wanted, strict=True):
        np.testing.assert_allclose(a, b, rtol=2e-3, atol=1e-4)
    assert list(ours.state_dict()) == list(theirs.state_dict())
    for source, target, library in ((ours, theirs, torch), (theirs, ours, flambeau)):
        file = io.BytesIO()
        (flambeau if source is ours else torch).save(source.state_dict(), file)
        file.seek(0)
        target.load_state_dict(library.load(file))
        results = [m(lib.tensor(x)).detach().numpy() for m, lib in ((ours, flambeau), (theirs, torch))]
        np.testing.assert_allclose(*results, rtol=1e-4, atol=1e-5)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", [name for name in MODULES if "transposed" not in name])
def test_layers_with_changed_weights_can_be_copied_and_made_plain(name: str) -> None:
    x = RNG.normal(size=(5, 4)).astype("f")
    module, _ = trained(flambeau, name, x)
    wanted = module(flambeau.tensor(x))
    if hasattr(module, "parametrizations"):
        twin = copy.deepcopy(module)
        assert flambeau.equal(twin(flambeau.tensor(x)), wanted)
    utils = flambeau.nn.utils
    changed = "bias" if "bias" in name or "mask" in name else "weight"
    if hasattr(module, "parametrizations"):
        utils.parametrize.remove_parametrizations(module, changed)
    elif utils.prune.is_pruned(module):
        utils.prune.remove(module, changed)
    else:
        (utils.remove_weight_norm if name.startswith("weight_norm") else utils.remove_spectral_norm)(module)
    assert type(module) is flambeau.nn.Linear and sorted(module.state_dict()) == ["bias", "weight"]
    np.testing.assert_allclose(module(flambeau.tensor(x)).detach().numpy(), wanted.detach().numpy(), rtol=1e-5, atol=1e-6)


def test_parametrized_tensors_can_be_set_and_cached() -> None:
    calls = []
    module = parametrized(flambeau, "weight", symmetric)
    module.parametrizations.weight[0].register_forward_hook(lambda *_: calls.append(1))
    module.weight = flambeau.eye(4)
    assert flambeau.equal(module.weight, flambeau.eye(4))
    del calls[:]
    with flambeau.nn.utils.parametrize.cached():
        assert module.weight is module.weight
    assert len(calls) == 1
    assert flambeau.nn.utils.parametrize.type_before_parametrizations(module) is flambeau.nn.Linear
    other = flambeau.nn.utils.parametrize.transfer_parametrizations_and_params(module, flambeau.nn.Linear(4, 4))
    assert flambeau.equal(other.weight, module.weight)
    with pytest.raises(RuntimeError, match="state_dict"):
        flambeau.save(module, io.BytesIO())


def test_global_pruning_takes_the_least_elements_of_all() -> None:
    masks = []
    weights = [RNG.normal(size=(3, 4)), RNG.normal(size=(2, 3)) * 3]
    for library in LIBRARIES:
        model = library.nn.Sequential(library.nn.Linear(4, 3), library.nn.Linear(3, 2))
        for part, weight in zip(model, weights, strict=True):
            part.weight.data = library.tensor(weight, dtype=library.float32)
        pairs = [(part, "weight") for part in model]
        prune = library.nn.utils.prune
        prune.global_unstructured(pairs, prune.L1Unstructured, amount=0.4)
        prune.global_unstructured(pairs, prune.L1Unstructured, amount=2)
        masks.append([part.weight_mask.tolist() for part in model])
    assert masks[0] == masks[1]


@pytest.mark.parametrize("transpose", [False, True])
@pytest.mark.parametrize("bias", [False, True])
def test_fused_layers_do_what_both_did(transpose: bool, bias: bool) -> None:
    x = RNG.normal(size=(2, 4, 6, 6)).astype("f")
    found = []
    for library in LIBRARIES:
        library.manual_seed(9)
        nn = library.nn
        conv = (nn.ConvTranspose2d if transpose else nn.Conv2d)(4, 3, 3, bias=bias)
        norms = [nn.BatchNorm2d(3), nn.BatchNorm1d(3)]
        norms[0](library.randn(8, 3, 4, 4))
        norms[1](library.randn(8, 3))
        linear = nn.Linear(4, 3, bias=bias)
        for part in (conv, linear, *norms):
            part.eval()
        fused = nn.utils.fuse_conv_bn_eval(conv, norms[0], transpose), nn.utils.fuse_linear_bn_eval(linear, norms[1])
        t = library.tensor(x)
        plain = norms[0](conv(t)), norms[1](linear(t[0, 0, :, :4]))
        for a, b in zip((fused[0](t), fused[1](t[0, 0, :, :4])), plain, strict=True):
            np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=1e-4, atol=1e-5)
        found.append([p.detach().numpy() for part in fused for p in part.parameters()])
    for a, b in zip(*found, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)


def test_modules_without_initial_values_draw_nothing() -> None:
    for library in LIBRARIES:
        library.manual_seed(1)
        before = library.get_rng_state()
        module = library.nn.utils.skip_init(library.nn.Linear, 3, out_features=2, dtype=library.float64)
        assert module.weight.dtype is library.float64 and tuple(module.weight.shape) == (2, 3)
        assert library.equal(before, library.get_rng_state())
        with pytest.raises(RuntimeError, match="device"):
            library.nn.utils.skip_init(library.nn.ReLU)


def test_weights_change_their_memory_format() -> None:
    for library in LIBRARIES:
        model = library.nn.Sequential(library.nn.Conv2d(2, 3, 3), library.nn.Conv3d(2, 3, 3))
        library.nn.utils.convert_conv2d_weight_memory_format(model, library.channels_last)
        assert model[0].weight.is_contiguous(memory_format=library.channels_last) and model[1].weight.is_contiguous()
        library.nn.utils.convert_conv3d_weight_memory_format(model, library.channels_last_3d)
        assert model[1].weight.is_contiguous(memory_format=library.channels_last_3d)


BAD: list[Callable[[Any], Any]] = [
    lambda t: t.nn.utils.parametrize.register_parametrization(t.nn.Linear(2, 2), "nothing", symmetric(t)),
    lambda t: t.nn.utils.parametrize.register_parametrization(t.nn.Linear(2, 2), "weight", t.nn.Flatten(0)),
    lambda t: t.nn.utils.parametrize.remove_parametrizations(t.nn.Linear(2, 2), "weight"),
    lambda t: t.nn.utils.parametrizations.orthogonal(t.nn.Linear(2, 2), "bias"),
    lambda t: t.nn.utils.parametrizations.orthogonal(t.nn.Linear(2, 2), orthogonal_map="other"),
    lambda t: t.nn.utils.parametrizations.spectral_norm(t.nn.Linear(2, 2), dim=3),
    lambda t: t.nn.utils.spectral_norm(t.nn.utils.spectral_norm(t.nn.Linear(2, 2))),
    lambda t: t.nn.utils.remove_spectral_norm(t.nn.Linear(2, 2)),
    lambda t: t.nn.utils.remove_weight_norm(t.nn.Linear(2, 2)), lambda t: t.nn.utils.prune.remove(t.nn.Linear(2, 2), "weight"),
    lambda t: t.nn.utils.prune.l1_unstructured(t.nn.Linear(2, 2), "weight", 1.5),
    lambda t: t.nn.utils.prune.l1_unstructured(t.nn.Linear(2, 2), "weight", 9), lambda t: t.nn.utils.prune.L1Unstructured("many"),
    lambda t: t.nn.utils.prune.ln_structured(t.nn.Linear(2, 2), "bias", 1, 2, 0),
    lambda t: t.nn.utils.prune.custom_from_mask(t.nn.Linear(2, 2), "weight", t.ones(3)),
    lambda t: t.nn.utils.fuse_conv_bn_eval(t.nn.Conv2d(2, 2, 1), t.nn.BatchNorm2d(2)),
]  # fmt: skip


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("number", range(len(BAD)))
def test_bad_arguments_raise_what_pytorch_raises(number: int) -> None:
    caught = []
    for library in LIBRARIES:
        with pytest.raises(Exception) as error:
            BAD[number](library)
        caught.append(error.type)
    assert caught[0] is caught[1]
