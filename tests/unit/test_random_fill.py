"""Random streams against numpy's Mersenne twister, following PyTorch's order of draws."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest

from flambeau.compilation.kernel_cache import KernelText, get_kernel
from flambeau.core import dtypes
from flambeau.core.cpu import cpu_features, vector_bits
from flambeau.core.dtypes import dtype
from flambeau.runtime.generator import Generator
from flambeau.runtime.launch import TaskArray, run_tasks
from flambeau.templates.random_fill import SCRATCH_BYTES, random_fill
from tests.unit.random_stream import Stream

LENGTHS = (1, 3, 15, 16, 17, 100, 623, 625, 2000, 4097)


def draw(generator: Generator, kind: str, element: dtype, count: int, bits: int = 0) -> np.ndarray:
    text = random_fill(kind, element, bits or vector_bits(), cpu_features())
    out = np.full(count + 1, 7, element.numpy)
    tasks = TaskArray(SCRATCH_BYTES)
    tasks.add(get_kernel(KernelText(text.text, text.name)).address, [0, 1, generator.address, out.ctypes.data, count], chunks=1, wave=0)
    run_tasks(tasks)
    assert out[-1] == 7, "the kernel wrote past the end"
    return out[:-1]


@pytest.mark.parametrize("bits", sorted({128, min(256, vector_bits()), vector_bits()}))
def test_every_kind_follows_the_stream(bits: int) -> None:
    seed = int(np.random.default_rng().integers(2**32))
    generator, stream = Generator().manual_seed(seed), Stream(seed)
    for count in LENGTHS:
        for element in (dtypes.float32, dtypes.float64):
            np.testing.assert_array_equal(draw(generator, "uniform", element, count, bits), stream.uniform(count, element), str(seed))
            normal = draw(generator, "normal", element, count, bits)
            tolerance = 3e-6 if element is dtypes.float32 else 1e-14
            np.testing.assert_allclose(normal, stream.normal(count, element), 0, tolerance, err_msg=str(seed))
        np.testing.assert_array_equal(draw(generator, "uniform53", dtypes.float64, count, bits), stream.uniform(count, dtypes.float64))
        np.testing.assert_array_equal(draw(generator, "word", dtypes.int64, count, bits), stream.words(count))
        np.testing.assert_array_equal(draw(generator, "permutation", dtypes.int64, count, bits), stream.permutation(count))


def test_nothing_is_drawn_for_no_elements() -> None:
    generator = Generator().manual_seed(1)
    before = generator.state_bytes()
    for kind, element in (("uniform", dtypes.float32), ("normal", dtypes.float64), ("permutation", dtypes.int64)):
        assert draw(generator, kind, element, 0).size == 0
    assert generator.state_bytes() == before


def test_a_state_can_be_saved_copied_and_taken_up() -> None:
    generator = Generator().manual_seed(9)
    draw(generator, "normal", dtypes.float32, 3)
    others = [generator.clone_state(), pickle.loads(pickle.dumps(generator)), copy.deepcopy(generator), Generator()]
    others[-1].set_state_bytes(generator.state_bytes())
    expected = draw(generator, "normal", dtypes.float32, 7)
    for other in others:
        np.testing.assert_array_equal(draw(other, "normal", dtypes.float32, 7), expected)
        assert other.initial_seed() == 9


def test_a_saved_state_has_the_known_layout() -> None:
    data = Generator().manual_seed(3).state_bytes()
    assert len(data) == 5056
    assert data[:16] == bytes([3, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0])


def test_the_low_bits_of_a_seed_decide() -> None:
    first, second = Generator().manual_seed(2**40 + 7), Generator().manual_seed(7)
    assert first.initial_seed() == 2**40 + 7
    np.testing.assert_array_equal(draw(first, "word", dtypes.int64, 5), draw(second, "word", dtypes.int64, 5))
    assert Generator().manual_seed(-1).initial_seed() == 2**64 - 1


def test_seed_starts_another_stream() -> None:
    generator = Generator()
    assert generator.initial_seed() == 67280421310721
    assert generator.seed() == generator.initial_seed()
    assert Generator().seed() != generator.initial_seed()


def test_bad_arguments_are_refused() -> None:
    with pytest.raises(RuntimeError, match="manual_seed: got"):
        Generator().manual_seed(1 << 64)
    with pytest.raises(RuntimeError, match="5056"):
        Generator().set_state_bytes(b"short")
    with pytest.raises(RuntimeError, match="not a CPU generator's state"):
        Generator().set_state_bytes(bytes(5056))
    with pytest.raises(RuntimeError, match="only 'cpu'"):
        Generator("cuda")
    with pytest.raises(NotImplementedError, match="float16"):
        random_fill("uniform", dtypes.float16, 512, frozenset())


def test_single_words_and_seeds_come_from_the_same_stream() -> None:
    seed = int(np.random.default_rng().integers(2**32))
    generator, stream = Generator().manual_seed(seed), Stream(seed)
    for count in (1, 700, 3):
        np.testing.assert_array_equal(generator.words(count), stream.words(count), str(seed))
        np.testing.assert_array_equal(draw(generator, "word", dtypes.int64, count), stream.words(count), str(seed))
    assert generator.seed_for_another() == stream.seed()
