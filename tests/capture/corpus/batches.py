"""torch.func, and tensors of other layouts."""

import flambeau as torch
from flambeau import nn
from tests.capture.corpus.harness import program, ramp
from tests.capture.corpus.modules import filled


@program(tolerance=1e-5)
def vmap_with_a_setting_that_changes():
    settings = {"scale": 2.0}

    def single(x):
        return torch.tanh(x) * settings["scale"] if settings["scale"] < 3 else x.sum()

    def f(x, bump):
        found = torch.vmap(single)(x)
        settings["scale"] += bump
        return found

    return f, [(ramp(3, 2), 0.0), (ramp(3, 2), 0.5), (ramp(3, 2), 1.0), (ramp(4, 2), 0.0)], lambda: dict(settings)


@program(tolerance=1e-5)
def per_sample_gradients_in_a_training_step():
    net = filled(nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1)))
    norms = []

    def loss(params, x, y):
        return ((torch.func.functional_call(net, params, (x,)) - y) ** 2).sum()

    def f(x, y):
        params = {k: p.detach() for k, p in net.named_parameters()}
        each = torch.vmap(torch.func.grad(loss), in_dims=(None, 0, 0))(params, x, y)
        with torch.no_grad():
            for name, p in net.named_parameters():
                size = each[name].flatten(1).norm(dim=1)
                norms.append(size)
                factor = (1 / size).clamp(max=1.0).reshape(-1, *[1] * p.dim())
                p.sub_(0.1 * (each[name] * factor).mean(0))
        return norms[-1]

    return f, [(ramp(4, 3, step=0.1 + 0.05 * i), ramp(4, 1)) for i in range(4)], lambda: (list(net.parameters()), list(norms))


@program(tolerance=1e-5)
def vmap_changes_its_argument_in_place():
    def fill(row, k):
        row[1:].mul_(k)
        row[0] = row[1] + k
        return row.sum()

    def f(x, k):
        found = torch.vmap(fill, in_dims=(0, None))(x, k)
        return found, x

    return f, [(ramp(3, 4), 2.0), (ramp(3, 4), 3.0), (ramp(2, 4), 3.0)]


@program(tolerance=1e-5)
def derivatives_nest():
    def energy(x):
        return (x.sin() * x.cumsum(0)).sum()

    def f(x):
        functions = torch.func
        return (
            functions.hessian(energy)(x[0]),
            torch.vmap(functions.jacfwd(functions.grad(energy)))(x),
            functions.jvp(functions.grad(energy), (x[0],), (x[1],)),
            functions.vjp(energy, x[0])[1](torch.tensor(2.0)),
        )

    return f, [(ramp(2, 3),), (ramp(2, 3, step=0.3),), (ramp(3, 3),)]


@program(tolerance=1e-5)
def gradient_of_a_function_with_effects():
    log = []

    def loss(w, x):
        log.append(x.shape[0])
        return (w * x).sum() ** 2

    def f(w, x):
        return torch.func.grad_and_value(loss)(w, x)

    return f, [(ramp(3), ramp(2, 3)), (ramp(3), ramp(2, 3, step=0.5)), (ramp(3), ramp(5, 3))], lambda: list(log)


@program(tolerance=1e-5)
def vmap_error_is_caught():
    def f(x, strict):
        try:
            return torch.vmap(lambda row: row.sum() if not strict else row.sum().item())(x)
        except RuntimeError as error:
            return "item" in str(error)

    return f, [(ramp(2, 3), False), (ramp(2, 3), True), (ramp(2, 3), False)]


@program(tolerance=1e-5)
def sparse_product_in_a_layer():
    weight = ramp(4, 2).requires_grad_()
    places = torch.tensor([[0, 1, 1, 2], [2, 0, 2, 1]])

    def f(values):
        adjacency = torch.sparse_coo_tensor(places, values, (3, 4))
        loss = torch.relu(torch.sparse.mm(adjacency, weight)).sum()
        loss.backward()
        return loss.detach()

    return f, [(ramp(4),), (ramp(4, step=0.5),), (ramp(4),)], lambda: weight.grad


@program(tolerance=1e-5)
def nested_sums():
    def f(x, y):
        nt = torch.nested.as_nested_tensor([x, y], layout=torch.jagged)
        return (nt * 2).sin().sum(1), nt.values()

    return f, [(ramp(2, 3), ramp(4, 3)), (ramp(2, 3, step=0.5), ramp(4, 3)), (ramp(1, 3), ramp(4, 3))]
