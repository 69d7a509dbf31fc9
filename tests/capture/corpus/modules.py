"""nn.Module: attributes, containers, buffers, hooks, modes, replaced parts."""

from importlib import import_module

import flambeau as torch
from flambeau import nn
from tests.capture.corpus.harness import program, ramp


def filled(module):
    """The module with parameters that do not depend on the random state."""
    with torch.no_grad():
        for i, p in enumerate(module.parameters()):
            p.copy_(ramp(*p.shape, start=0.1 * i - 0.3, step=0.07))
    return module


@program(tolerance=1e-6)
def module_forward():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = nn.Linear(3, 4), nn.Linear(4, 2)
            self.scale = 2.0

        def forward(self, x):
            return self.b(torch.relu(self.a(x))) * self.scale

    net = filled(Net())

    def rescale():
        net.scale = 3.0

    return net, [(ramp(2, 3),), (ramp(2, 3),), (ramp(4, 3),), rescale, (ramp(2, 3),)], lambda: net


@program(tolerance=1e-6)
def module_containers():
    layers = filled(nn.ModuleList([nn.Linear(3, 3), nn.Linear(3, 3)]))
    table = nn.ModuleDict({"relu": nn.ReLU(), "tanh": nn.Tanh()})
    extra = nn.ParameterList([nn.Parameter(ramp(3)), nn.Parameter(ramp(3))])

    def f(x, name):
        for layer, p in zip(layers, extra, strict=True):
            x = table[name](layer(x)) + p
        return x, len(layers), list(table.keys())

    def more():
        layers.append(nn.Identity())
        extra.append(nn.Parameter(ramp(3)))

    return f, [(ramp(2, 3), "relu"), (ramp(2, 3), "tanh"), (ramp(2, 3), "relu"), more, (ramp(2, 3), "relu")], lambda: layers


@program(tolerance=1e-6)
def module_sequential_replaced_layer():
    net = filled(nn.Sequential(nn.Linear(3, 3), nn.ReLU(), nn.Linear(3, 2)))

    def replace():
        net[1] = nn.Tanh()

    def cut():
        del net[2]

    return lambda x: net(x), [(ramp(2, 3),), (ramp(2, 3),), replace, (ramp(2, 3),), cut, (ramp(2, 3),)], lambda: net


@program(tolerance=1e-6)
def module_train_and_eval():
    net = filled(nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.Dropout(0.5)))

    def f(x):
        return net(x)

    x = ramp(3, 4)
    return f, [(x,), (x,), net.eval, (x,), (x + 1,), net.train, (x,)], lambda: net


@program(tolerance=1e-6)
def module_mode_switched_inside():
    net = filled(nn.Sequential(nn.Linear(3, 3), nn.Dropout(0.5)))

    def f(x):
        net.eval()
        with torch.no_grad():
            a = net(x)
        net.train()
        return a, net(x), net.training

    return f, [(ramp(2, 3),), (ramp(2, 3),), net.eval, (ramp(2, 3),)], lambda: net


@program()
def module_buffers():
    class Running(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("mean", torch.zeros(2))
            self.register_buffer("count", torch.tensor(0), persistent=False)

        def forward(self, x):
            self.count += 1
            self.mean = self.mean * 0.5 + x * 0.5
            return x - self.mean

    m = Running()
    return m, [(ramp(2),), (ramp(2),), (ramp(2) + 3,)], lambda: (m, m.count)


@program()
def module_hooks():
    layer = nn.ReLU()
    log = []
    handles = [
        layer.register_forward_pre_hook(lambda m, args: (args[0] + 1,)),
        layer.register_forward_hook(lambda m, args, out: log.append(tuple(out.shape))),
        layer.register_forward_hook(lambda m, args, out: out * 2),
    ]

    def f(x):
        return layer(x)

    def drop():
        handles[2].remove()

    return f, [(ramp(3),), (ramp(3),), drop, (ramp(3),), (ramp(2),)], lambda: list(log)


@program()
def module_hook_added_between_calls():
    layer = nn.Identity()

    def f(x):
        return layer(x) + 1

    def add():
        layer.register_forward_hook(lambda m, args, out: out * 10)

    return f, [(ramp(3),), (ramp(3),), add, (ramp(3),), (ramp(3),)]


@program(tolerance=1e-6)
def module_parameter_replaced():
    net = filled(nn.Linear(3, 2))

    def f(x):
        return net(x)

    def replace():
        net.weight = nn.Parameter(ramp(2, 3) * 2)

    def frozen():
        net.weight.requires_grad_(False)

    def no_bias():
        net.bias = None

    return f, [(ramp(2, 3),), replace, (ramp(2, 3),), frozen, (ramp(2, 3),), no_bias, (ramp(2, 3),)], lambda: net


@program()
def module_parameter_made_inside():
    class Lazy(nn.Module):
        def __init__(self):
            super().__init__()
            self.w = None

        def forward(self, x):
            if self.w is None:
                self.w = nn.Parameter(torch.ones(x.shape[-1]) * 2)
            return x * self.w

    m = Lazy()
    return m, [(ramp(3),), (ramp(3),), (ramp(2, 3),)], lambda: (m, m.w)


@program(tolerance=1e-6)
def module_shared_weights():
    class Tied(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed = nn.Embedding(4, 3)
            self.out = nn.Linear(3, 4, bias=False)
            self.out.weight = self.embed.weight

        def forward(self, index):
            return self.out(self.embed(index))

    m = filled(Tied())
    return m, [(torch.tensor([0, 1]),), (torch.tensor([3, 3]),), (torch.tensor([2]),)], lambda: m


@program(tolerance=1e-6)
def module_state_dict_loaded_between_calls():
    net, other = filled(nn.Linear(3, 2)), filled(nn.Linear(3, 2))
    with torch.no_grad():
        other.weight.mul_(-2)

    def load():
        net.load_state_dict(other.state_dict())

    return lambda x: net(x), [(ramp(2, 3),), load, (ramp(2, 3),), (ramp(2, 3),)], lambda: net


@program()
def module_iterates_its_parts():
    net = nn.Sequential(nn.ReLU(), nn.Sequential(nn.Tanh(), nn.Identity()))

    def f(x):
        names = [n for n, _ in net.named_modules()]
        kinds = [type(m).__name__ for m in net.modules() if not list(m.children())]
        return net(x), names, kinds, sum(p.numel() for p in net.parameters()), isinstance(net[0], nn.ReLU)

    return f, [(ramp(2),), (ramp(2),), (ramp(3),)]


@program()
def module_counts_its_calls():
    class Counting(nn.Module):
        def __init__(self):
            super().__init__()
            self.calls = 0
            self.last = None

        def forward(self, x):
            self.calls += 1
            self.last = x * self.calls
            return self.last + 1

    m = Counting()
    return m, [(ramp(2),), (ramp(2),), (ramp(2),), (ramp(2),)], lambda: (m.calls, m.last)


@program()
def module_getattr_and_property():
    class Wrapper(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = nn.ReLU()
            self.inner.gain = 2.0

        def __getattr__(self, name):
            try:
                return super().__getattr__(name)
            except AttributeError:
                return getattr(super().__getattr__("inner"), name)

        @property
        def double(self):
            return self.gain * 2

        def forward(self, x):
            return self.inner(x) * self.gain + self.double

    m = Wrapper()

    def change():
        m.inner.gain = 5.0

    return m, [(ramp(3),), (ramp(3),), change, (ramp(3),)]


@program(tolerance=1e-5)
def module_forward_replaced():
    net = filled(nn.Linear(3, 3))

    def f(x):
        return net(x)

    def patch():
        old = net.forward
        net.forward = lambda x: old(x) * 2

    return f, [(ramp(2, 3),), (ramp(2, 3),), patch, (ramp(2, 3),)]


@program(tolerance=1e-5)
def module_attention_block():
    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm = nn.LayerNorm(4)
            self.qkv, self.out = nn.Linear(4, 12), nn.Linear(4, 4)

        def forward(self, x):
            b, t, c = x.size()
            q, k, v = self.qkv(self.norm(x)).split(c, dim=2)
            q, k, v = (z.view(b, t, 2, c // 2).transpose(1, 2) for z in (q, k, v))
            y = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
            return x + self.out(y.transpose(1, 2).contiguous().view(b, t, c))

    m = filled(Block())
    return m, [(ramp(1, 3, 4),), (ramp(1, 3, 4) * 2,), (ramp(2, 2, 4),)], lambda: m


@program(tolerance=1e-5)
def module_recurrent_cell():
    cell = filled(nn.GRUCell(2, 3))

    def f(xs, h):
        out = []
        for x in xs.unbind(1):
            h = cell(x, h)
            out.append(h)
        return torch.stack(out, 1), h

    return f, [(ramp(2, 3, 2), torch.zeros(2, 3)), (ramp(2, 3, 2), ramp(2, 3)), (ramp(2, 2, 2), torch.zeros(2, 3))], lambda: cell


class _Counting(torch.nn.Module):
    calls_of_all = 0

    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(2, 2)
        self.calls = 0
        self.sizes = 0.5
        torch.nn.init.constant_(self.layer.weight, 0.25)
        torch.nn.init.constant_(self.layer.bias, 0.5)

    def forward(self, x):
        self.calls += 1
        type(self).calls_of_all += 1
        self.sizes = self.sizes * 2 + x.shape[0]
        return self.layer(x) / self.calls


@program()
def module_that_counts_its_calls():
    m = _Counting()
    _Counting.calls_of_all = 0

    def f(x):
        return m(m(x)) + m.calls

    def many():
        m.calls = 1000

    return f, [(ramp(3, 2),), (ramp(3, 2),), (ramp(3, 2),), many, (ramp(3, 2),), (ramp(2, 2),)], lambda: [m.calls, m.sizes, m.calls_of_all]


class _Defaults(torch.nn.Module):
    calls = 0
    factor = 2.0
    mode = "add"

    def forward(self, x):
        self.calls += 1
        return self.shift(x * self.factor) if self.mode == "add" else x / self.calls

    def shift(self, x):
        return x + self.calls


@program()
def module_with_defaults_in_its_class():
    m = _Defaults()
    _Defaults.factor = 2.0

    def f(x):
        return m(m(x))

    def of_class():
        _Defaults.factor = 3.0

    def of_instance():
        m.factor, m.mode = 4.0, "divide"

    def of_instance_again():
        m.shift, m.mode = lambda x: x - 1, "add"

    x = ramp(2)
    return f, [(x,), (x,), (x,), of_class, (x,), of_instance, (x,), of_instance_again, (x,), (x,)], lambda: m.calls


class _Replacing(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(ramp(3, 2))
        self.table = torch.nn.Embedding(3, 2)
        self.table.weight = torch.nn.Parameter(ramp(3, 2, start=0.5))
        self.register_buffer("counts", torch.zeros(3))
        self.last = None

    def forward(self, x):
        scores = x @ self.weight.t()
        out = self.table(scores.argmax(1)) + scores.sum(1, keepdim=True)
        if self.training:
            self.counts = self.counts * 0.5 + scores.detach().sum(0)
            self.weight = torch.nn.Parameter(self.weight * 0.5 + self.counts.unsqueeze(1))
            self.table.weight = torch.nn.Parameter(self.weight / 2)
        self.last = out
        return out * self.counts.sum()


@program(tolerance=1e-6)
def module_that_replaces_its_tensors():
    m = _Replacing()

    def f(x):
        out = m(x) + m(x * 2)
        loss = out.square().mean()
        loss.backward()
        return loss, m.last, m.weight.sum() + len(list(m.parameters()))

    def reset():
        m.counts = torch.ones(3)

    def in_place():
        m.counts.fill_(2.0)

    x = ramp(4, 2)
    calls = [(x,), (x,), (x,), reset, (x,), m.eval, (x,), in_place, (x,), m.train, (x,), (x,)]
    return f, calls, lambda: [m.weight, m.weight.grad, m.counts, m.table.weight, m.table.weight.grad]


@program(tolerance=1e-5)
def hooks_that_set_the_weight():
    torch.manual_seed(1)
    utils = torch.nn.utils
    inner = torch.nn.Sequential(utils.weight_norm(torch.nn.Linear(4, 2)))
    net = torch.nn.Sequential(utils.spectral_norm(torch.nn.Linear(3, 4)), torch.nn.Tanh(), inner)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)

    def f(x):
        net.zero_grad()
        loss = net(x).sum() + net(x * 2).square().mean()
        loss.backward()
        optimizer.step()
        return loss

    calls = [(ramp(2, 3) * k,) for k in (1, 2, 3)] + [net.eval, (ramp(2, 3),), (ramp(2, 3),), net.train, (ramp(2, 3),)]
    return f, calls, lambda: [*net.parameters(), *net.buffers()]


@program()
def module_that_changes_at_every_call():
    m = torch.nn.Linear(2, 2)

    def f(x):
        return m(x)

    def another():
        m.weight = torch.nn.Parameter(m.weight.detach() * 2)

    torch.nn.init.constant_(m.weight, 0.5)
    torch.nn.init.constant_(m.bias, 0.5)
    return f, [(ramp(2, 2),), another] * 12


@program(tolerance=1e-6)
def modes_set_inside():
    net = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.BatchNorm1d(3), torch.nn.Linear(3, 1))
    for p in net.parameters():
        torch.nn.init.constant_(p, 0.25)
    seen = []

    def f(x, limit):
        net.train()
        first = net(x).sum()
        net.eval()
        with torch.no_grad():
            second = net(x).sum()
        seen.append((net.training, net[1].training))
        if second.item() > limit:
            net.train()
            second = second + net(x * 2).sum()
        return first, second

    calls = [(ramp(4, 2), 100), (ramp(4, 2), -100), net.eval, (ramp(4, 2), 100), (ramp(4, 2), -100), (ramp(3, 2), 100), (ramp(3, 2), -100)]
    return f, calls, lambda: [seen, net.training, *net.buffers()]


@program(tolerance=1e-6)
def leaves_frozen_inside():
    torch.manual_seed(0)
    critic, actor = torch.nn.Linear(2, 1), torch.nn.Linear(3, 2)
    optimizer = torch.optim.SGD(actor.parameters(), lr=0.1)

    def f(z, limit):
        for p in critic.parameters():
            p.requires_grad = False
        optimizer.zero_grad()
        loss = -critic(actor(z).tanh()).mean()
        loss.backward()
        optimizer.step()
        critic.requires_grad_(True)
        if loss.item() > limit:
            critic.bias.requires_grad_(False)
            critic(z[:, :2]).sum().backward()
        return loss

    def thawed():
        critic.requires_grad_(True)

    calls = [(ramp(4, 3), 100), (ramp(4, 3), 100), (ramp(4, 3), -100), thawed, (ramp(4, 3), -100), (ramp(4, 3), 100), (ramp(5, 3), -100)]
    state = lambda: [*actor.parameters(), *[(p.requires_grad, p.grad) for p in critic.parameters()]]  # noqa: E731
    return f, calls, state


@program()
def parameters_marked_inside():
    net = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Linear(2, 2))

    def f(x):
        for k, p in enumerate(net.parameters()):
            p.requires_grad = k % 2 == 0
            p.label = getattr(p, "label", 0) + k
        return x * 2

    def other():
        net.requires_grad_(True)
        for p in net.parameters():
            p.label = 10

    return f, [(ramp(2),), (ramp(2),), other, (ramp(2),), (ramp(2),)], lambda: [(p.requires_grad, p.label) for p in net.parameters()]


@program()
def hook_of_the_library_that_sets_the_weight():
    m = torch.nn.Sequential(torch.nn.Linear(2, 2))
    torch.nn.init.constant_(m[0].weight, 0.5)
    torch.nn.init.constant_(m[0].bias, 0.5)
    import_module(f"{torch.nn.utils.__name__}.prune").custom_from_mask(m[0], "weight", torch.eye(2))

    def f(x):
        loss = m(x * 2).sum()
        loss.backward()
        return loss

    return f, [(ramp(2, 2) * k,) for k in range(12)], lambda: [m[0].weight_orig.grad, m[0].bias.grad]
