"""Trains a small GPT on the source of Python's standard library, byte by byte: eager, compiled, or both side by side.

An ordinary PyTorch program. What is compiled is the whole training step, from zero_grad to the optimizer's update.

    flambeau run examples/gpt.py --steps 200                  # or: python examples/gpt.py, with PyTorch
    flambeau run examples/gpt.py --compare --steps 50         # eager and compiled from the same seed
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import math
import sys
import sysconfig
import time
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path

import torch
from torch import nn
from torch.nn import functional as F

VOCABULARY = 256  # one token for each byte


class Attention(nn.Module):
    """Causal self-attention with one projection for queries, keys and values."""

    def __init__(self, width: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.heads = heads
        self.dropout = dropout
        self.inputs = nn.Linear(width, 3 * width)
        self.output = nn.Linear(width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(batch, time, width) to the same shape."""
        batch, time_, width = x.shape
        q, k, v = self.inputs(x).view(batch, time_, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4).unbind(0)
        mixed = F.scaled_dot_product_attention(q, k, v, dropout_p=self.dropout if self.training else 0.0, is_causal=True)
        return self.output(mixed.transpose(1, 2).reshape(batch, time_, width))


class Block(nn.Module):
    """Attention and a two-layer perceptron, each behind a layer norm and around a residual."""

    def __init__(self, width: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.attention_norm = nn.LayerNorm(width)
        self.attention = Attention(width, heads, dropout)
        self.perceptron_norm = nn.LayerNorm(width)
        self.perceptron = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(batch, time, width) to the same shape."""
        x = x + self.dropout(self.attention(self.attention_norm(x)))
        return x + self.dropout(self.perceptron(self.perceptron_norm(x)))


class GPT(nn.Module):
    """A decoder-only transformer over bytes with learned positions."""

    def __init__(self, layers: int, width: int, heads: int, block: int, dropout: float, tie: bool) -> None:
        super().__init__()
        self.block = block
        self.tokens = nn.Embedding(VOCABULARY, width)
        self.positions = nn.Embedding(block, width)
        self.dropout = nn.Dropout(dropout)
        self.blocks = nn.ModuleList(Block(width, heads, dropout) for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, VOCABULARY, bias=False)
        if tie:
            self.head.weight = self.tokens.weight
        self.apply(initialize)
        for name, parameter in self.named_parameters():
            if name.endswith(("attention.output.weight", "perceptron.2.weight")):
                # The residual stream adds up two of these a layer; its variance should not grow with their number.
                nn.init.normal_(parameter, std=0.02 / math.sqrt(2 * layers))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Bytes (batch, time) to logits (batch, time, vocabulary)."""
        h = self.dropout(self.tokens(x) + self.positions(torch.arange(x.shape[1], device=x.device)))
        for block in self.blocks:
            h = block(h)
        return self.head(self.norm(h))


def initialize(module: nn.Module) -> None:
    """Normal weights of deviation 0.02, biases zero."""
    if isinstance(module, nn.Linear | nn.Embedding):
        nn.init.normal_(module.weight, std=0.02)
        if isinstance(module, nn.Linear) and module.bias is not None:
            nn.init.zeros_(module.bias)


def corpus(path: str | None, limit: int) -> bytes:
    """The file, or the standard library's top-level modules in the order of their names; at most `limit` bytes."""
    if path is not None:
        return Path(path).read_bytes()[:limit]
    text = b""
    for file in sorted(Path(sysconfig.get_paths()["stdlib"]).glob("*.py")):
        text += file.read_bytes()
        if len(text) >= limit:
            break
    return text[:limit]


class Batches:
    """Windows of a text, drawn at random for training and at even distances for validation."""

    def __init__(self, text: bytes, block: int, batch: int, device: str) -> None:
        data = torch.tensor(list(text), dtype=torch.long, device=device)
        split = len(text) * 9 // 10
        self.training, self.validation = data[:split], data[split:]
        self.window = torch.arange(block, device=device)
        self.block, self.batch = block, batch
        if len(text) - split <= block:
            sys.exit(f"{len(text)} bytes of text are too few for windows of {block}: a tenth of them must be longer than that")

    def random(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Inputs and targets (batch, block) of the training text."""
        return self.at(self.training, torch.randint(len(self.training) - self.block, (self.batch,)))

    def even(self, count: int) -> Iterable[tuple[torch.Tensor, torch.Tensor]]:
        """`count` batches of the validation text, always the same."""
        last = len(self.validation) - self.block
        starts = (torch.arange(count * self.batch) * last) // (count * self.batch)
        return [self.at(self.validation, part) for part in starts.split(self.batch)]

    def at(self, data: torch.Tensor, starts: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """The windows that begin at `starts`, and the same one byte later."""
        places = starts.to(data.device)[:, None] + self.window
        return data[places], data[places + 1]


def loss_of(model: nn.Module, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """Mean cross-entropy of the next byte, in nats."""
    return F.cross_entropy(model(x).reshape(-1, VOCABULARY), y.reshape(-1))


def make_optimizer(model: nn.Module, options: argparse.Namespace) -> torch.optim.Optimizer:
    """AdamW that decays matrices and leaves biases and norms alone."""
    matrices = [p for p in model.parameters() if p.dim() >= 2]
    vectors = [p for p in model.parameters() if p.dim() < 2]
    groups = [{"params": matrices, "weight_decay": options.weight_decay}, {"params": vectors, "weight_decay": 0.0}]
    return torch.optim.AdamW(groups, lr=options.lr, betas=(0.9, 0.95))


def schedule(steps: int, warmup: int) -> Callable[[int], float]:
    """The factor of the learning rate at a step: a linear start, then a cosine down to a tenth."""

    def factor(step: int) -> float:
        if step < warmup:
            return (step + 1) / (warmup + 1)
        progress = (step - warmup) / max(1, steps - warmup)
        return 0.1 + 0.45 * (1 + math.cos(math.pi * progress))

    return factor


@dataclass
class Result:
    """What a training run gave."""

    name: str
    losses: list[float] = field(default_factory=list)
    first_step_seconds: float = 0.0
    tokens_per_second: float = 0.0
    validation_loss: float = math.nan


def train(name: str, options: argparse.Namespace, batches: Batches, compiled: bool) -> tuple[nn.Module, Result]:
    """Train a fresh model from the seed; the model and what happened on the way."""
    torch.manual_seed(options.seed)
    model = GPT(options.layers, options.width, options.heads, options.block, options.dropout, options.tie).to(options.device)
    optimizer = make_optimizer(model, options)
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, schedule(options.steps, options.warmup))

    def train_step(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        optimizer.zero_grad()
        loss = loss_of(model, x, y)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), options.clip)
        optimizer.step()
        return loss.detach()

    step = torch.compile(train_step) if compiled else train_step
    result = Result(name)
    model.train()
    start = time.perf_counter()
    for number in progress(range(options.steps), name):
        loss = step(*batches.random()).item()
        result.losses.append(loss)
        if number == 0:
            result.first_step_seconds = time.perf_counter() - start
            start = time.perf_counter()
        if number % options.log_every == 0 or number == options.steps - 1:
            print(f"{name}: step {number:5}  loss {loss:.4f}  lr {scheduler.get_last_lr()[0]:.2e}", flush=True)
        scheduler.step()
    if options.steps > 1:
        result.tokens_per_second = (options.steps - 1) * options.batch * options.block / (time.perf_counter() - start)
    result.validation_loss = validate(model, batches)
    return model, result


def validate(model: nn.Module, batches: Batches) -> float:
    """Mean loss over four batches of the validation text."""
    model.eval()
    with torch.no_grad():
        losses = [loss_of(model, x, y).item() for x, y in batches.even(4)]
    return sum(losses) / len(losses)


def generate(model: GPT, prompt: bytes, count: int, temperature: float, top_k: int) -> bytes:
    """The prompt and `count` bytes more, each drawn from the `top_k` likeliest at the given temperature."""
    model.eval()
    text = torch.tensor([list(prompt)], device=next(model.parameters()).device)
    with torch.no_grad():
        for _ in range(count):
            logits = model(text[:, -model.block :])[:, -1] / temperature
            least = torch.topk(logits, top_k).values[:, -1:]
            likely = F.softmax(logits.masked_fill(logits < least, -math.inf), dim=-1)
            text = torch.cat([text, torch.multinomial(likely, 1)], dim=1)
    return bytes(text[0].tolist())


def progress(numbers: range, name: str) -> Iterable[int]:
    """A bar on a terminal, by tqdm where it is installed; the numbers alone elsewhere."""
    if not sys.stderr.isatty():
        return numbers
    if importlib.util.find_spec("tqdm"):
        from tqdm import tqdm

        return tqdm(numbers, desc=name, leave=False)
    return plain_bar(numbers, name)


def plain_bar(numbers: range, name: str) -> Iterable[int]:
    """A bar of 40 signs."""
    for done, number in enumerate(numbers, start=1):
        yield number
        filled = 40 * done // len(numbers)
        print(f"\r{name} [{'#' * filled}{'.' * (40 - filled)}] {done}/{len(numbers)}", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)


def plot(results: list[Result], path: Path) -> Path:
    """Draw the loss curves; with matplotlib in the format that the name asks for, without it as an SVG. The file written."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if importlib.util.find_spec("matplotlib") is None:
        path = path.with_suffix(".svg")
        path.write_text(svg(results), encoding="utf-8")
        return path
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(8, 5))
    for result in results:
        axes.plot(result.losses, label=result.name)
    axes.set(xlabel="step", ylabel="loss (nats per byte)")
    axes.legend()
    figure.savefig(path)
    return path


def svg(results: list[Result]) -> str:
    """The loss curves as SVG text, 640 by 400."""
    left, right, top, bottom = 50, 620, 20, 360
    low = min(min(result.losses) for result in results)
    high = max(max(result.losses) for result in results)
    lines = ['<svg xmlns="http://www.w3.org/2000/svg" width="640" height="400" font-family="sans-serif" font-size="12">']
    lines.append('<rect width="640" height="400" fill="white"/>')
    for part in range(5):
        y = top + (bottom - top) * part / 4
        lines.append(f'<line x1="{left}" y1="{y}" x2="{right}" y2="{y}" stroke="#dddddd"/>')
        lines.append(f'<text x="{left - 6}" y="{y + 4}" text-anchor="end">{high - (high - low) * part / 4:.2f}</text>')
    for index, result in enumerate(results):
        color = ("#1f77b4", "#d62728")[index % 2]
        points = " ".join(
            f"{left + (right - left) * step / max(1, len(result.losses) - 1):.1f},"
            f"{top + (bottom - top) * (high - loss) / max(high - low, 1e-9):.1f}"
            for step, loss in enumerate(result.losses)
        )
        # The second curve is dashed, so that equal curves are both seen.
        dashes = ' stroke-dasharray="6 6"' if index else ""
        lines.append(f'<polyline points="{points}" fill="none" stroke="{color}" stroke-width="2"{dashes}/>')
        lines.append(f'<text x="{right - 80}" y="{top + 16 * (index + 1)}" fill="{color}">{result.name}</text>')
    lines.append(f'<text x="{(left + right) / 2}" y="390" text-anchor="middle">step (0 to {len(results[0].losses) - 1})</text>')
    return "\n".join([*lines, "</svg>"]) + "\n"


def report(results: list[Result]) -> None:
    """One row a run, and how far the curves of two runs are apart."""
    print(f"\n{'':10} {'first step':>11} {'tokens/s':>9} {'last loss':>10} {'validation':>11}")
    for r in results:
        print(f"{r.name:10} {r.first_step_seconds:9.2f} s {r.tokens_per_second:9,.0f} {r.losses[-1]:10.4f} {r.validation_loss:11.4f}")
    if len(results) == 2:
        apart = max(abs(a - b) for a, b in zip(results[0].losses, results[1].losses, strict=True))
        print(f"largest difference between the two loss curves: {apart:.2e}")
        if results[0].tokens_per_second:
            print(f"compiled is {results[1].tokens_per_second / results[0].tokens_per_second:.2f} times as fast as eager")


def parse(arguments: list[str] | None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--steps", type=int, default=200)
    add("--compile", action=argparse.BooleanOptionalAction, default=True, help="compile the training step")
    add("--compare", action="store_true", help="train eager, then compiled, from the same seed")
    add("--layers", type=int, default=4)
    add("--width", type=int, default=128)
    add("--heads", type=int, default=4)
    add("--block", type=int, default=128, help="bytes that the model sees at once")
    add("--batch", type=int, default=16)
    add("--dropout", type=float, default=0.0)
    add("--tie", action="store_true", help="use one matrix for the token embedding and the output")
    add("--lr", type=float, default=1e-3)
    add("--warmup", type=int, default=10)
    add("--weight-decay", type=float, default=0.1)
    add("--clip", type=float, default=1.0, help="largest norm of the gradient")
    add("--seed", type=int, default=1337)
    add("--threads", type=int, help="threads of the CPU; all by default")
    add("--device", default="cpu")
    add("--data", help="a file to train on instead of the standard library")
    add("--data-bytes", type=int, default=1_000_000, help="how much of the text is used")
    add("--log-every", type=int, default=10)
    add("--sample", type=int, default=200, help="bytes of text to write at the end")
    add("--prompt", default="def ")
    add("--temperature", type=float, default=0.8)
    add("--top-k", type=int, default=40)
    add("--json", type=Path, help="write options, losses and speeds to this file")
    add("--plot", type=Path, help="draw the loss curves into this file")
    return parser.parse_args(arguments)


def main(arguments: list[str] | None = None) -> None:
    """Train, report, and show what the model writes."""
    options = parse(arguments)
    if options.threads:
        torch.set_num_threads(options.threads)
    text = corpus(options.data, options.data_bytes)
    batches = Batches(text, options.block, options.batch, options.device)
    modes = {"eager": False, "compiled": True} if options.compare else {("compiled" if options.compile else "eager"): options.compile}
    results = []
    for name, compiled in modes.items():
        model, result = train(name, options, batches, compiled)
        results.append(result)
    parameters = sum(p.numel() for p in model.parameters())
    print(f"\n{parameters:,} parameters, {len(text):,} bytes of text, torch {torch.__version__}")
    report(results)
    if options.sample:
        written = generate(model, options.prompt.encode(), options.sample, options.temperature, min(options.top_k, VOCABULARY))
        print(f"\nA sample:\n{written.decode(errors='replace')}")
    if options.json:
        kept = {name: value for name, value in vars(options).items() if name not in ("json", "plot")}
        record = {"command": sys.argv, "torch": str(torch.__version__), "options": kept, "parameters": parameters}
        record["runs"] = [asdict(r) for r in results]
        options.json.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    if options.plot:
        print(f"loss curves: {plot(results, options.plot)}")


if __name__ == "__main__":
    main()
