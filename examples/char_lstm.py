"""Trains a character-level LSTM on the documentation strings of Python's standard library, then lets it write.

An ordinary PyTorch program.

    flambeau run examples/char_lstm.py               # or: python examples/char_lstm.py, with PyTorch
    flambeau run examples/char_lstm.py --steps 400 --sample 400
"""

from __future__ import annotations

import argparse
import ast
import sysconfig
import time
import warnings
from pathlib import Path

import torch
from torch import nn
from torch.nn import functional as F


class Writer(nn.Module):
    """An embedding, stacked LSTM layers, and scores for the next character."""

    def __init__(self, characters: int, width: int, layers: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(characters, width)
        self.lstm = nn.LSTM(width, width, layers, batch_first=True)
        self.scores = nn.Linear(width, characters)

    def forward(self, x: torch.Tensor, state: tuple[torch.Tensor, torch.Tensor] | None = None) -> tuple[torch.Tensor, tuple]:
        """(batch, time) of character numbers to (batch, time, characters) scores, and the state to go on from."""
        hidden, state = self.lstm(self.embedding(x), state)
        return self.scores(hidden), state


def corpus(characters: int) -> str:
    """Documentation strings of the standard library, in the order of its files."""
    parts: list[str] = []
    total = 0
    for path in sorted(Path(sysconfig.get_path("stdlib")).glob("*.py")):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(path.read_text(encoding="utf-8"))
        for node in ast.walk(tree):
            if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)):
                text = ast.get_docstring(node)
                if text and text.isascii():
                    parts.append(text + "\n\n")
                    total += len(parts[-1])
        if total >= characters:
            break
    return "".join(parts)[:characters]


@torch.no_grad()
def write(model: Writer, alphabet: str, prompt: str, length: int, temperature: float) -> str:
    """Characters drawn one after another."""
    model.eval()
    numbers = {c: i for i, c in enumerate(alphabet)}
    scores, state = model(torch.tensor([[numbers[c] for c in prompt]]))
    out = prompt
    for _ in range(length):
        drawn = torch.multinomial(F.softmax(scores[0, -1] / temperature, 0), 1)
        out += alphabet[drawn.item()]
        scores, state = model(drawn.unsqueeze(0), state)
    return out


def main(arguments: list[str] | None = None) -> list[float]:
    """Train, write, and return the losses."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=150)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--length", type=int, default=48, help="characters that the model sees at once")
    parser.add_argument("--width", type=int, default=192)
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--lr", type=float, default=4e-3)
    parser.add_argument("--compile", action=argparse.BooleanOptionalAction, default=True, help="compile the training step")
    parser.add_argument("--sample", type=int, default=200, help="characters to write at the end")
    parser.add_argument("--prompt", default="Return the ")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args(arguments)
    torch.manual_seed(options.seed)
    text = corpus(300_000)
    alphabet = "".join(sorted(set(text)))
    numbers = {c: i for i, c in enumerate(alphabet)}
    data = torch.tensor([numbers[c] for c in text])
    model = Writer(len(alphabet), options.width, options.layers)
    optimizer = torch.optim.Adam(model.parameters(), options.lr)

    def step(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x)[0].flatten(0, 1), y.flatten())
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        return loss.detach()

    run = torch.compile(step) if options.compile else step
    print(f"{len(text)} characters of documentation, {len(alphabet)} different ones")
    losses: list[float] = []
    started = time.perf_counter()
    for number in range(options.steps):
        starts = torch.randint(0, len(data) - options.length - 1, (options.batch,))
        places = starts[:, None] + torch.arange(options.length + 1)
        chosen = data[places]
        losses.append(run(chosen[:, :-1].contiguous(), chosen[:, 1:].contiguous()).item())
        if number % 25 == 0 or number == options.steps - 1:
            print(f"step {number:4d}   loss {losses[-1]:.4f}   {time.perf_counter() - started:.1f} s", flush=True)
    if options.sample:
        print("\n" + write(model, alphabet, options.prompt, options.sample, 0.7))
    return losses


if __name__ == "__main__":
    main()
