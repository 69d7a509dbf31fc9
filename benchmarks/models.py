"""Ordinary models in PyTorch's words, for both libraries: a step function, and what each call of it gets.

``torch`` is whatever the process was started with.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

Step = Callable[..., Any]


def training(model: nn.Module, loss_of: Callable[..., Any], optimizer: Any) -> Step:
    """One training step; returns the loss."""

    def step(*batch: Any) -> Any:
        optimizer.zero_grad()
        loss = loss_of(model, *batch)
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step


def again(*batch: Any) -> Iterator[tuple[Any, ...]]:
    while True:
        yield batch


def classification(model: nn.Module, images: Any, labels: Any) -> Any:
    return F.cross_entropy(model(images), labels)


# -- GPT: the example ---------------------------------------------------------------------------------------------------
def gpt() -> tuple[Step, Iterator[tuple[Any, ...]]]:
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "examples"))
    example: Any = import_module("gpt")
    options = example.parse([])
    model = example.GPT(options.layers, options.width, options.heads, options.block, options.dropout, options.tie)
    optimizer = example.make_optimizer(model, options)
    batches = example.Batches(example.corpus(None, options.data_bytes), options.block, options.batch, "cpu")

    def step(x: Any, y: Any) -> Any:
        optimizer.zero_grad()
        loss = example.loss_of(model, x, y)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), options.clip)
        optimizer.step()
        return loss.detach()

    return step, iter(batches.random, None)


# -- ViT-S/16 -----------------------------------------------------------------------------------------------------------
class Block(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x: Any) -> Any:
        batch, length, width = x.shape
        qkv = self.qkv(self.norm1(x)).reshape(batch, length, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4)
        q, k, v = qkv.unbind(0)
        attended = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(batch, length, width)
        x = x + self.out(attended)
        return x + self.mlp(self.norm2(x))


class VisionTransformer(nn.Module):
    def __init__(self, width: int = 384, depth: int = 12, heads: int = 6, patch: int = 16, image: int = 224) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, width, patch, stride=patch)
        self.token = nn.Parameter(torch.zeros(1, 1, width))
        self.positions = nn.Parameter(torch.randn(1, (image // patch) ** 2 + 1, width) * 0.02)
        self.blocks = nn.Sequential(*[Block(width, heads) for _ in range(depth)])
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, 1000)

    def forward(self, images: Any) -> Any:
        x = self.patches(images).flatten(2).transpose(1, 2)
        x = torch.cat([self.token.expand(x.shape[0], -1, -1), x], 1) + self.positions
        return self.head(self.norm(self.blocks(x))[:, 0])


def vit() -> tuple[Step, Iterator[tuple[Any, ...]]]:
    model = VisionTransformer()
    return training(model, classification, torch.optim.AdamW(model.parameters(), 1e-4)), again(
        torch.randn(4, 3, 224, 224), torch.randint(0, 1000, (4,))
    )


# -- LSTM language model --------------------------------------------------------------------------------------------------
class LanguageModel(nn.Module):
    def __init__(self, words: int = 1000, width: int = 256, layers: int = 2) -> None:
        super().__init__()
        self.embedding = nn.Embedding(words, width)
        self.lstm = nn.LSTM(width, width, layers, batch_first=True)
        self.out = nn.Linear(width, words)

    def forward(self, x: Any) -> Any:
        return self.out(self.lstm(self.embedding(x))[0])


def lstm() -> tuple[Step, Iterator[tuple[Any, ...]]]:
    model = LanguageModel()

    def loss_of(model: nn.Module, x: Any, y: Any) -> Any:
        return F.cross_entropy(model(x).flatten(0, 1), y.flatten())

    words = torch.randint(0, 1000, (20, 36))
    return training(model, loss_of, torch.optim.Adam(model.parameters())), again(words[:, :-1].contiguous(), words[:, 1:].contiguous())


# -- MLP ----------------------------------------------------------------------------------------------------------------
def mlp() -> tuple[Step, Iterator[tuple[Any, ...]]]:
    model = nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 4))
    return training(model, classification, torch.optim.SGD(model.parameters(), 0.1, momentum=0.9)), again(
        torch.randn(32, 16), torch.randint(0, 4, (32,))
    )


# -- ResNet-18 ------------------------------------------------------------------------------------------------------------
class Residual(nn.Module):
    def __init__(self, before: int, after: int, stride: int) -> None:
        super().__init__()
        self.conv1, self.norm1 = nn.Conv2d(before, after, 3, stride, 1, bias=False), nn.BatchNorm2d(after)
        self.conv2, self.norm2 = nn.Conv2d(after, after, 3, 1, 1, bias=False), nn.BatchNorm2d(after)
        self.shortcut = nn.Sequential()
        if stride != 1 or before != after:
            self.shortcut = nn.Sequential(nn.Conv2d(before, after, 1, stride, bias=False), nn.BatchNorm2d(after))

    def forward(self, x: Any) -> Any:
        inner = F.relu(self.norm1(self.conv1(x)))
        return F.relu(self.norm2(self.conv2(inner)) + self.shortcut(x))


class ResNet18(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(), nn.MaxPool2d(3, 2, 1))
        sizes = [(64, 64, 1), (64, 64, 1), (64, 128, 2), (128, 128, 1), (128, 256, 2), (256, 256, 1), (256, 512, 2), (512, 512, 1)]
        self.blocks = nn.Sequential(*[Residual(*size) for size in sizes])
        self.head = nn.Linear(512, 1000)

    def forward(self, images: Any) -> Any:
        return self.head(F.adaptive_avg_pool2d(self.blocks(self.stem(images)), 1).flatten(1))


def resnet() -> tuple[Step, Iterator[tuple[Any, ...]]]:
    model = ResNet18()
    return training(model, classification, torch.optim.SGD(model.parameters(), 0.01, momentum=0.9)), again(
        torch.randn(8, 3, 224, 224), torch.randint(0, 1000, (8,))
    )


MODELS = {"gpt": gpt, "vit": vit, "lstm": lstm, "mlp": mlp, "resnet": resnet}
