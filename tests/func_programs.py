"""Programs with torch.func, for any module that is like torch: ``program(torch, make)`` returns tensors, in containers.

``make(*shape)`` gives float32 tensors of random numbers, the same for every module.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Maker = Callable[..., Any]
PROGRAMS: dict[str, Callable[[Any, Maker], Any]] = {}


def program(function: Callable[[Any, Maker], Any]) -> Callable[[Any, Maker], Any]:
    PROGRAMS[function.__name__] = function
    return function


def _network(torch: Any, make: Maker, *layers: Any) -> tuple[Any, dict[str, Any]]:
    """A Module with the same numbers for every library, and its parameters."""
    module = layers[0] if len(layers) == 1 else torch.nn.Sequential(*layers)
    for parameter in module.parameters():
        parameter.data = make(*parameter.shape)
    return module, {k: v.detach() for k, v in module.named_parameters()}


def _softmax(torch: Any, make: Maker) -> tuple[Any, Callable[[Any], Any]]:
    weight = make(3, 4)
    return make(5, 3), lambda x: torch.softmax(x @ weight, 0)


@program
def maps(torch: Any, make: Maker) -> Any:
    vmap, (x, f) = torch.vmap, _softmax(torch, make)
    a, b = make(3, 2, 4), make(3, 2, 4)
    outer = vmap(vmap(torch.dot, in_dims=(None, 0)), in_dims=(0, None))
    return (
        vmap(f)(x), vmap(f, chunk_size=2)(x), vmap(vmap(torch.dot), in_dims=(1, 1))(a, b), outer(x, x),
        vmap(lambda a, b: a + b, in_dims=(0, 1), out_dims=1)(x, make(3, 5)),
        vmap(lambda d, y: {"s": d["a"] * y, "t": (d["b"], y)}, in_dims=({"a": 0, "b": None}, 0))({"a": x, "b": make(2)}, x),
        vmap(lambda x: torch.ones(2))(x), vmap(lambda x, k: x * k, in_dims=(-1, None))(x, 3.0),
    )  # fmt: skip


@program
def derivatives(torch: Any, make: Maker) -> Any:
    func, vmap, (x, f) = torch.func, torch.vmap, _softmax(torch, make)
    output, pull = func.vjp(f, x[0])
    same, push = func.linearize(f, x[0])
    return (
        func.grad(lambda x: f(x)[1])(x[0]), func.grad_and_value(lambda x: f(x)[1])(x[0]), func.grad(func.grad(torch.sin))(x[0, 0]),
        vmap(func.grad(func.grad(torch.sin)))(x[0]), func.grad(lambda x: vmap(func.grad(torch.sin))(x).sum())(x[0]),
        output, pull(make(4)), vmap(pull)(make(6, 4)), same, push(make(3)), func.jvp(f, (x[0],), (make(3),)),
        func.jvp(lambda a, b: (a * b, a.sum()), (x[0], x[1]), (make(3), make(3))),
        vmap(lambda a, t: func.jvp(f, (a,), (t,)))(x, make(5, 3)), func.vjp(lambda x: (x.sin(), x.sum()), x[0], has_aux=True)[1](make(3)),
        func.grad(lambda p, q: (p["a"] * q).sum(), argnums=(0, 1))({"a": x[0]}, x[1]),
        func.grad(lambda x: (f(x)[0], f(x)), has_aux=True)(x[0]),
    )  # fmt: skip


@program
def jacobians(torch: Any, make: Maker) -> Any:
    func, vmap, (x, f) = torch.func, torch.vmap, _softmax(torch, make)
    return (
        func.jacrev(f)(x[0]), func.jacfwd(f)(x[0]), vmap(func.jacrev(f))(x), vmap(func.jacfwd(f))(x), func.jacrev(f, chunk_size=3)(x[0]),
        func.hessian(lambda x: f(x)[0].log())(x[0]), vmap(func.hessian(lambda x: f(x)[0].log()))(x), func.jacrev(func.jacfwd(f))(x[0]),
        func.jacfwd(func.jacfwd(f))(x[0]), func.jacrev(func.jacrev(f))(x[0]), func.jacrev(lambda x: (x.sin(), {"a": x.sum()}))(x[0]),
        func.jacrev(lambda x, y: x * y.sum(), argnums=(0, 1))(x[0], x[1]), func.jacrev(lambda d: d["a"] * d["b"])({"a": x[0], "b": x[1]}),
        func.hessian(lambda x, y: (x * y).sum() ** 2, argnums=(0, 1))(x[0], x[1]), func.jacfwd(lambda x: x * 2, has_aux=False)(x),
    )  # fmt: skip


@program
def per_sample_gradients(torch: Any, make: Maker) -> Any:
    func, nn = torch.func, torch.nn
    model, params = _network(torch, make, nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 2))

    def loss(params: Any, x: Any, y: Any) -> Any:
        return nn.functional.cross_entropy(func.functional_call(model, params, (x[None],)), y[None])

    return torch.vmap(func.grad(loss), in_dims=(None, 0, 0))(params, make(5, 3), torch.tensor([0, 1, 1, 0, 1]))


@program
def per_sample_gradients_of_layers(torch: Any, make: Maker) -> Any:
    func, nn = torch.func, torch.nn
    cases = [
        (nn.Conv2d(2, 3, 3, padding=1), (2, 5, 5)), (nn.LayerNorm(4), (3, 4)), (nn.ConvTranspose2d(2, 3, 3, stride=2), (2, 4, 4)),
        (nn.Sequential(nn.Conv2d(2, 3, 3, stride=2), nn.GroupNorm(1, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten()), (2, 9, 9)),
        (nn.TransformerEncoderLayer(4, 2, 8, dropout=0.0, batch_first=True), (5, 4)),
    ]  # fmt: skip
    found = []
    for layer, shape in cases:
        module, params = _network(torch, make, layer)

        def loss(params: Any, x: Any, module: Any = module) -> Any:
            return (func.functional_call(module, params, (x[None],)) ** 2).sum()

        found.append(torch.vmap(func.grad_and_value(loss), (None, 0))(params, make(3, *shape)))
    return found


@program
def ensemble(torch: Any, make: Maker) -> Any:
    func = torch.func
    models = [_network(torch, make, torch.nn.Linear(3, 2))[0] for _ in range(4)]
    params, buffers = func.stack_module_state(models)
    x = make(5, 3)
    out = torch.vmap(lambda p, b, x: func.functional_call(models[0], (p, b), (x,)), in_dims=(0, 0, None))(params, buffers, x)
    out.square().sum().backward()
    return out, params["weight"].grad, params["bias"].grad


@program
def neural_tangent_kernel(torch: Any, make: Maker) -> Any:
    func, vmap = torch.func, torch.vmap
    model, params = _network(torch, make, torch.nn.Linear(3, 8), torch.nn.Tanh(), torch.nn.Linear(8, 2))
    x1, x2 = make(5, 3), make(4, 3)

    def net(params: Any, x: Any) -> Any:
        return func.functional_call(model, params, (x[None],))[0]

    jacobians = [vmap(func.jacrev(net), (None, 0))(params, x) for x in (x1, x2)]
    whole = sum(torch.einsum("Naf,Mbf->NMab", jacobians[0][k].flatten(2), jacobians[1][k].flatten(2)) for k in params)

    def one(a: Any, b: Any) -> Any:
        _, pull = func.vjp(lambda p: net(p, a), params)
        return vmap(lambda v: func.jvp(lambda p: net(p, b), (params,), pull(v))[1])(torch.eye(2))

    return whole, vmap(vmap(one, (None, 0)), (0, None))(x1, x2)


@program
def learning_to_learn(torch: Any, make: Maker) -> Any:
    """A gradient through steps of gradient descent on each task of a batch."""
    func = torch.func
    model, params = _network(torch, make, torch.nn.Linear(3, 8), torch.nn.Tanh(), torch.nn.Linear(8, 2))
    x, y = make(4, 6, 3), make(4, 6, 2)

    def step(params: Any, x: Any, y: Any) -> Any:
        found = func.grad(lambda p: ((func.functional_call(model, p, (x,)) - y) ** 2).mean())(params)
        return {k: params[k] - 0.1 * found[k] for k in params}

    def task(params: Any, x: Any, y: Any) -> Any:
        return ((func.functional_call(model, step(step(params, x, y), x, y), (x * 0.5,)) - y) ** 2).mean()

    def meta(params: Any) -> Any:
        return torch.vmap(task, in_dims=(None, 0, 0))(params, x, y).mean()

    meta(dict(model.named_parameters())).backward()
    return func.grad(meta)(params), [p.grad for p in model.parameters()]


@program
def with_the_tape(torch: Any, make: Maker) -> Any:
    """Gradients of the tape through functions made by torch.func, and its gradients of batches."""
    func, x = torch.func, make(5, 3)
    a, b, c, d = make(3).requires_grad_(), make(3).requires_grad_(), make(5, 3).requires_grad_(), make(5, 3).requires_grad_()
    func.grad(lambda z: (torch.sin(z) * a).sum())(x[0]).sum().backward()
    torch.vmap(lambda z: (z * b).sin())(x).sum().backward()
    torch.vmap(func.grad(lambda z: (z**3).sum()))(c).sum().backward()
    batched = torch.autograd.grad((d**2).sum(0), d, torch.eye(3), is_grads_batched=True)
    with torch.no_grad():
        alone = func.grad(lambda z: (z**2 * a).sum())(x[0])
    return a.grad, b.grad, c.grad, batched, alone


@program
def changes_in_place(torch: Any, make: Maker) -> Any:
    func, vmap, x = torch.func, torch.vmap, make(5, 3)

    def changed(x: Any) -> Any:
        y = x.clone()
        y[0] = x[1] * 2
        y.mul_(3)
        y[1:].add_(x[:2])
        return y

    def made(x: Any) -> Any:
        z, o, e = torch.zeros_like(x), x.new_zeros(2, 2), torch.empty_like(x)
        z[0] = x[1]
        o[0] = x[:2]
        e.fill_(2)
        e[1] += x[0]
        return z, o, e, torch.ones_like(x).mul_(x), torch.full_like(x, 3) * x

    def put(x: Any, at: Any) -> Any:
        y, z = x.clone(), x.clone()
        y[at] = 7.0
        z[at] = x[:2] * 2
        return y, z

    return (
        vmap(changed)(x), vmap(func.grad(lambda x: changed(x).pow(2).sum()))(x), func.jacrev(changed)(x[0]), vmap(func.jacfwd(changed))(x),
        vmap(made)(x), vmap(vmap(lambda x: [t.sum() for t in made(x)]))(make(2, 3, 3)),
        vmap(put)(x, torch.tensor([[0, 1], [2, 0], [1, 2], [2, 1], [0, 1]])),
    )  # fmt: skip


@program
def operators(torch: Any, make: Maker) -> Any:
    vmap, linalg, x = torch.vmap, torch.linalg, make(5, 3)
    matrix = make(4, 3, 3)
    matrix = matrix @ matrix.transpose(1, 2) + torch.eye(3)
    pairs = torch.tensor([[0, 1], [2, 0], [1, 1], [2, 2], [0, 0]])
    orders = torch.tensor([[0, 1, 2], [2, 1, 0], [1, 2, 0], [2, 0, 1], [0, 2, 1]])
    z = torch.complex(make(4, 3), make(4, 3))
    return (
        vmap(linalg.inv)(matrix), vmap(linalg.cholesky)(matrix), vmap(linalg.solve, (0, None))(matrix, make(3)), vmap(linalg.det)(matrix),
        vmap(linalg.eigvalsh)(matrix), vmap(torch.func.jacrev(linalg.inv))(matrix), vmap(linalg.slogdet)(matrix)[1],
        vmap(torch.sort)(x), vmap(lambda a: torch.topk(a, 2))(x), vmap(lambda a: a.cumsum(0))(x), vmap(lambda a: torch.fft.fft(a).abs())(x),
        vmap(lambda a: torch.einsum("i,j->ij", a, a))(x), vmap(lambda a: torch.nn.functional.pad(a, (1, 2)))(x),
        vmap(lambda a, i: a[i])(x, pairs), vmap(lambda a, i: a.index_add(0, i, a[:2]))(x, pairs),
        vmap(lambda a, i: a.scatter(0, i, a))(x, orders), vmap(lambda a, i: a.gather(0, i))(x, orders),
        vmap(lambda a: torch.where(a > 0, a, 0 * a))(x), vmap(lambda a: a.masked_fill(a > 0, 1.0))(x), vmap(lambda a: a.unfold(0, 2, 1))(x),
        vmap(lambda a: a.view(3, 1).expand(3, 2))(x), vmap(torch.diag)(x), vmap(lambda a: a.flip(0))(x), vmap(lambda a: a.var())(x),
        vmap(lambda a: torch.nn.functional.scaled_dot_product_attention(a, a, a))(make(3, 2, 4, 5)),
        vmap(torch.nn.functional.cross_entropy)(make(3, 4, 5), torch.tensor([[0, 1, 2, 3]] * 3)),
        vmap(lambda a: (a * a.conj()).real.sum())(z), vmap(lambda a: torch.view_as_real(a).sum(0))(z),
        vmap(lambda a: torch.outer(a, a) @ a)(z),
        vmap(lambda a: a.sum() * make(3).double())(x), vmap(lambda a: a.sum() * torch.ones(2, dtype=torch.float16))(x.double()),
    )  # fmt: skip


@program
def custom_functions(torch: Any, make: Maker) -> Any:
    func, vmap, x, s = torch.func, torch.vmap, make(5, 3), torch.tensor(2.0)

    class Cube(torch.autograd.Function):  # type: ignore[misc]
        generate_vmap_rule = True

        @staticmethod
        def forward(x: Any, s: Any) -> Any:
            return x**3 * s, x * 2

        @staticmethod
        def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
            ctx.save_for_backward(*inputs)

        @staticmethod
        def backward(ctx: Any, g: Any, h: Any) -> Any:
            x, s = ctx.saved_tensors
            return 3 * x * x * g * s + 2 * h, (x**3 * g).sum()

    class Sine(torch.autograd.Function):  # type: ignore[misc]
        @staticmethod
        def forward(x: Any) -> Any:
            return torch.sin(x)

        @staticmethod
        def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
            ctx.save_for_backward(*inputs)

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return torch.cos(ctx.saved_tensors[0]) * g

        @staticmethod
        def vmap(info: Any, in_dims: Any, x: Any) -> Any:
            assert info.batch_size == 5
            return Sine.apply(x), in_dims[0]

    def f(x: Any, s: Any) -> Any:
        a, b = Cube.apply(x, s)
        return (a * b).sum()

    return (
        vmap(f, (0, None))(x, s), vmap(func.grad(f, (0, 1)), (0, None))(x, s),
        func.grad(lambda x, s: vmap(f, (0, None))(x, s).sum(), (0, 1))(x, s), vmap(func.jacrev(func.jacrev(f)), (0, None))(x, s),
        vmap(vmap(func.grad(f), (0, None)), (0, None))(x.reshape(5, 3, 1), s),
        func.grad(lambda x: vmap(vmap(f, (0, None)), (0, None))(x.reshape(5, 3, 1), s).sum())(x),
        vmap(Sine.apply)(x), vmap(func.grad(lambda x: Sine.apply(x).sum()))(x), func.grad(lambda x: vmap(Sine.apply)(x).sum())(x),
    )  # fmt: skip


@program
def autograd_functional(torch: Any, make: Maker) -> Any:
    functional, x, y = torch.autograd.functional, make(3), make(3)

    def f(x: Any) -> Any:
        return torch.softmax(x * y, 0)

    def scalar(x: Any) -> Any:
        return f(x)[0].exp()

    found = []
    for options in ({}, {"vectorize": True}, {"vectorize": True, "strategy": "forward-mode"}):
        found.append(functional.jacobian(f, x, **options))
        found.append(functional.jacobian(lambda a, b: (a * b.sum(), b.sin()), (x, y), **options))
    return (
        found, functional.hessian(scalar, x, vectorize=True), functional.jvp(f, x, y), functional.vjp(f, x, y),
        functional.hessian(scalar, x, vectorize=True, outer_jacobian_strategy="forward-mode"), functional.hvp(scalar, x, y),
        functional.jvp(lambda a, b: (a * b, a.sum()), (x, y), (y, x)),
    )  # fmt: skip


@program
def dual_tensors(torch: Any, make: Maker) -> Any:
    forward_ad, x, y = torch.autograd.forward_ad, make(3), make(3)
    b = x.clone().requires_grad_()
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(x, y)
        found = [forward_ad.unpack_dual(torch.softmax(dual, 0) * dual), forward_ad.unpack_dual(dual).tangent]
        assert forward_ad.unpack_dual(x).tangent is None
        module, _ = _network(torch, make, torch.nn.Linear(3, 2))
        found.append(forward_ad.unpack_dual(module(dual)))
        third = forward_ad.unpack_dual((forward_ad.make_dual(b, y) ** 3).sum()).tangent
    third.backward()
    return found, b.grad
