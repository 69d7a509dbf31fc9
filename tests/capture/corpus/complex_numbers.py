"""Complex numbers: views and changes of them, transforms, gradients through them, with real arguments and results or complex ones."""

import flambeau as torch
from tests.capture.corpus.harness import program, ramp


def spectrum(*shape):
    return torch.complex(ramp(*shape), ramp(*shape, start=0.5, step=-0.25))


@program()
def complex_inside_alone():
    def f(x):
        z = torch.complex(x, x * 2)
        return z.real.sum(), (z * z).imag, torch.view_as_real(z * 2), z[:1].abs()

    return f, [(ramp(2, 3),), (ramp(2, 3) * 2,), (ramp(3, 3),)]


@program(tolerance=1e-6)
def gradients_through_parts_of_complex_values():
    def f(x, w):
        z = torch.complex(x, x.sin())
        part = z[:, :2]
        loss = (part * w[:, :2]).real.sum() + (part * part).imag.sum() + z.t()[1].abs().sum()
        loss.backward()
        return loss

    return f, [(ramp(2, 3, grad=True), spectrum(2, 3)) for _ in range(3)]


@program(tolerance=1e-6)
def step_with_fourier_modes():
    weight = torch.nn.Parameter(spectrum(2, 2, 2))
    optimizer = torch.optim.SGD([weight], lr=0.1)

    def f(x):
        optimizer.zero_grad()
        modes = torch.fft.rfft(x)
        out = torch.zeros(2, 2, 5, dtype=torch.cfloat)
        out[:, :, :2] = torch.einsum("bix,iox->box", modes[:, :, :2], weight)
        out[:, :, -2:] = torch.einsum("bix,iox->box", modes[:, :, -2:], weight)
        loss = torch.fft.irfft(out, n=9).square().mean()
        loss.backward()
        optimizer.step()
        return loss

    return f, [(ramp(2, 2, 9, step=0.125 * (k + 1), grad=True),) for k in range(3)], lambda: [weight, weight.grad]


@program(tolerance=1e-6)
def gradients_of_rotations():
    def f(x, angles):
        turned = torch.polar(torch.ones_like(angles), angles)
        pairs = torch.view_as_complex(x.reshape(2, 2, 2))
        out = torch.view_as_real(pairs * turned).flatten(1)
        grad_x, grad_angles = torch.autograd.grad((out * out.detach().cos()).sum(), (x, angles))
        return out, grad_x, grad_angles

    return f, [(ramp(2, 4, grad=True), ramp(2, grad=True)) for _ in range(3)]


@program(tolerance=1e-6)
def complex_views_written_and_differentiated():
    def f(z):
        y = z * (1 + 2j)
        y[0] = y[1].conj() * z[0]
        y.real.mul_(2)
        y[:, 1:] += z[:, :2]
        return (y.abs() ** 2).sum() + (y.mT @ y).imag.sum()

    return f, [(spectrum(2, 3).requires_grad_(),) for _ in range(3)]
