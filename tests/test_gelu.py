"""The cheap exact GELU over every finite bf16 number, emulated and in C++; and that the test sees a GELU that is worse."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from tests.conftest import require
from utils.kernels import cpu_door, gelu
from utils.kernels.data import Data
from utils.kernels.forms import Form

X = gelu.all_bf16()


def by_cpp(x: np.ndarray) -> np.ndarray:
    n = len(x)
    buffers = Data(torch.from_numpy(x.copy()).view(1, n), torch.zeros(n), torch.zeros(1, n), torch.full((1, n), float("nan")))
    cpu_door.launch(Form(gelu="cheap"), buffers)()
    return buffers.out.numpy()[0]


def test_every_finite_bf16_number_is_there_once():
    assert len(X) == 65_280 == len(set(X.view(np.uint32).tolist())) and np.isfinite(X).all()


@pytest.mark.parametrize("dtype, ulp", [("bf16", 1), ("fp32", 0)])
def test_the_emulation_holds_one_ulp_and_a_ten_millionth(dtype, ulp):
    found = gelu.errors(X, gelu.cheap(X, *gelu.for_dtype(dtype)))
    assert found["ulp"] <= ulp and found["absolute"] <= 1e-7


def test_the_cpp_form_holds_them_too():
    require("compiler")
    found = gelu.errors(X, by_cpp(X))
    assert found["ulp"] == 0 and found["absolute"] <= 1e-7


@pytest.mark.parametrize(
    "worse",
    [
        lambda x: gelu.cheap(x, 3, 5.2),
        lambda x: 0.5 * x * (1 + torch.erf(torch.from_numpy(x) * 0.5**0.5).numpy()),
        lambda x: torch.nn.functional.gelu(torch.from_numpy(x), approximate="tanh").numpy(),
        lambda x: np.where(x < 0, 0, gelu.cheap(x)),
    ],
    ids=["degree 3", "erf in fp32", "tanh", "no tail"],
)
def test_a_worse_gelu_is_seen(worse):
    found = gelu.errors(X, worse(X))
    assert found["ulp"] > 1 or found["absolute"] > 1e-7


def test_a_nan_is_far_from_everything():
    broken = gelu.cheap(X)
    broken[np.argmin(np.abs(X - 1))] = np.nan
    assert gelu.errors(X, broken)["ulp"] > 1000


def test_the_truth_is_torchs_in_float64_where_that_is_exact():
    x = np.linspace(-3, 8, 1001)
    assert np.allclose(gelu.exact(x), torch.nn.functional.gelu(torch.from_numpy(x)).numpy(), rtol=1e-13, atol=1e-16)


def test_in_fp32_it_is_no_worse_than_torchs_own():
    require("compiler")
    x = np.random.default_rng(5).uniform(-8, 8, 300_000).astype(np.float32)
    truth = gelu.exact(x)
    theirs = np.abs(torch.nn.functional.gelu(torch.from_numpy(x)).numpy() - truth).max()
    assert np.abs(by_cpp(x) - truth).max() <= 1.25 * theirs


def test_infinities_and_nan_come_through():
    require("compiler")
    got = by_cpp(np.array([np.inf, -np.inf, np.nan, 0.0, -0.0], dtype=np.float32))
    assert got[0] == np.inf and abs(got[1]) < 1e-7 and np.isnan(got[2]) and got[3] == got[4] == 0


def test_rounding_to_bf16_is_torchs():
    x = np.random.default_rng(6).standard_normal(100_000).astype(np.float32)
    assert np.array_equal(gelu.to_bf16(x), torch.from_numpy(x).to(torch.bfloat16).float().numpy())
