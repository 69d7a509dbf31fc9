"""Classifies handwritten digits with a small convolutional network: real images (8x8, scikit-learn's), trained, tested, explained.

An ordinary PyTorch program; it needs scikit-learn for the images (pip install scikit-learn).

    flambeau run examples/digits.py                  # or: python examples/digits.py, with PyTorch
    flambeau run examples/digits.py --no-compile
"""

from __future__ import annotations

import argparse
import time

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

CLASSES = 10


class Network(nn.Module):
    """Two convolutions with batch norm and pooling, then a layer for the classes."""

    def __init__(self, width: int = 32) -> None:
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(1, width, 3, padding=1), nn.BatchNorm2d(width), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(width, 2 * width, 3, padding=1), nn.BatchNorm2d(2 * width), nn.ReLU(), nn.MaxPool2d(2),
        )  # fmt: skip
        self.classes = nn.Linear(2 * width * 4, CLASSES)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """(batch, 1, 8, 8) to (batch, 10) scores."""
        return self.classes(self.features(images).flatten(1))


def load(seed: int) -> tuple[TensorDataset, TensorDataset]:
    """Training and test images, four to one, in an order of their own."""
    from sklearn.datasets import load_digits

    digits = load_digits()
    images = torch.tensor(digits.images, dtype=torch.float32).unsqueeze(1) / 8 - 1
    labels = torch.tensor(digits.target, dtype=torch.int64)
    order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(seed))
    split = len(order) * 4 // 5
    train, test = order[:split], order[split:]
    return TensorDataset(images[train], labels[train]), TensorDataset(images[test], labels[test])


@torch.no_grad()
def accuracy(model: nn.Module, data: TensorDataset) -> tuple[float, torch.Tensor]:
    """The share of images that are classified right, and how often each digit (row) was taken for each (column)."""
    model.eval()
    images, labels = data.tensors
    found = model(images).argmax(1)
    confusion = torch.zeros(CLASSES, CLASSES, dtype=torch.int64)
    confusion.index_put_((labels, found), torch.ones_like(labels), accumulate=True)
    return (found == labels).float().mean().item(), confusion


def main(arguments: list[str] | None = None) -> float:
    """Train, test, and return the accuracy on the test images."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epochs", type=int, default=12)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--compile", action=argparse.BooleanOptionalAction, default=True, help="compile the training step")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(arguments)
    torch.manual_seed(options.seed)
    train, test = load(options.seed)
    model = Network()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    batches = DataLoader(train, options.batch, shuffle=True, drop_last=True)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 1e-2, total_steps=options.epochs * len(batches))

    def step(images: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        optimizer.zero_grad()
        loss = F.cross_entropy(model(images), labels)
        loss.backward()
        optimizer.step()
        return loss.detach()

    run = torch.compile(step) if options.compile else step
    for epoch in range(options.epochs):
        started, losses = time.perf_counter(), []
        model.train()
        for images, labels in batches:
            losses.append(run(images, labels))
            schedule.step()
        loss, seconds = torch.stack(losses).mean().item(), time.perf_counter() - started
        print(f"epoch {epoch:2d}   loss {loss:.4f}   test accuracy {100 * accuracy(model, test)[0]:.2f} %   {seconds:.2f} s", flush=True)
    share, confusion = accuracy(model, test)
    print("\ndigit   " + "".join(f"{d:4d}" for d in range(CLASSES)))
    for digit, row in enumerate(confusion.tolist()):
        print(f"{digit:5d}   " + "".join(f"{count:4d}" if count else "   ." for count in row))
    print(f"\n{len(test)} test images, {100 * share:.2f} % right")
    return share


if __name__ == "__main__":
    main()
