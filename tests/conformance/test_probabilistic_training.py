"""Programs that learn by sampling follow PyTorch's step for step: policy gradients, a variational autoencoder, a mixture."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import flambeau


def policy_gradients(t: Any) -> list[float]:
    """REINFORCE with a baseline and a bonus for entropy on a chain of states, actions of a Categorical."""
    d = t.distributions
    t.manual_seed(0)
    policy, value = t.nn.Sequential(t.nn.Linear(4, 16), t.nn.Tanh(), t.nn.Linear(16, 3)), t.nn.Linear(4, 1)
    optimizer = t.optim.Adam([*policy.parameters(), *value.parameters()], lr=1e-2)
    losses = []
    for _ in range(8):
        state, terms = t.eye(4)[:1], []
        for _ in range(5):
            choice = d.Categorical(logits=policy(state))
            action = choice.sample()
            reward = (action == 1).float() - 0.1 * action
            advantage = reward - value(state).squeeze(-1)
            terms.append(-choice.log_prob(action) * advantage.detach() + advantage.square() - 0.01 * choice.entropy())
            state = state.roll(int(action), -1)
        loss = t.cat(terms).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def variational_autoencoder(t: Any) -> list[float]:
    """The reparameterization trick with Normal, and Bernoulli pixels."""
    d = t.distributions
    t.manual_seed(1)
    encoder, decoder = t.nn.Linear(12, 8), t.nn.Linear(4, 12)
    optimizer = t.optim.Adam([*encoder.parameters(), *decoder.parameters()], lr=1e-2)
    x = t.bernoulli(t.full((16, 12), 0.4))
    losses = []
    for _ in range(10):
        mean, spread = encoder(x).chunk(2, -1)
        posterior = d.Independent(d.Normal(mean, t.nn.functional.softplus(spread) + 1e-3), 1)
        prior = d.Independent(d.Normal(t.zeros(4), t.ones(4)), 1)
        likelihood = d.Independent(d.Bernoulli(logits=decoder(posterior.rsample())), 1)
        loss = (d.kl_divergence(posterior, prior) - likelihood.log_prob(x)).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def squashed_actor(t: Any) -> list[float]:
    """Soft actor: tanh of a Normal, with the log probability of its own sample."""
    d = t.distributions
    t.manual_seed(2)
    actor = t.nn.Linear(3, 4)
    optimizer = t.optim.SGD(actor.parameters(), lr=0.05)
    losses = []
    for _ in range(8):
        mean, spread = actor(t.randn(8, 3)).chunk(2, -1)
        action = d.TransformedDistribution(d.Normal(mean, spread.exp()), [d.transforms.TanhTransform(cache_size=1)])
        sample = action.rsample()
        loss = (0.1 * action.log_prob(sample).sum(-1) + (sample - 0.5).square().sum(-1)).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def mixture(t: Any) -> list[float]:
    """Maximum likelihood of a mixture of normal distributions, its scales through `transform_to`."""
    d = t.distributions
    t.manual_seed(3)
    x = t.cat([t.randn(40) - 3, t.randn(60) * 0.5 + 2])
    weights, means, spreads = (t.tensor(v, requires_grad=True) for v in ([0.0, 0.0], [-1.0, 1.0], [0.0, 0.0]))
    optimizer = t.optim.Adam([weights, means, spreads], lr=0.1)
    losses = []
    for _ in range(15):
        parts = d.Normal(means, d.transform_to(d.constraints.positive)(spreads))
        loss = -d.MixtureSameFamily(d.Categorical(logits=weights), parts).log_prob(x).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


@pytest.mark.parametrize("program", [policy_gradients, variational_autoencoder, squashed_actor, mixture])
def test_losses(program):
    expected = program(torch)
    assert program(flambeau) == pytest.approx(expected, rel=2e-4, abs=1e-5)
