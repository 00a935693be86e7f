"""Products: who may run them, the work, and the proof that they are right. Real torch on the CPU."""

from __future__ import annotations

import math
import time

import pytest

torch = pytest.importorskip("torch")

from gemm_products import LIMITS, Product, operations, set_precision, unsupported_reason  # noqa: E402

from rentbench.harness.timing import CpuTimer  # noqa: E402

ON_CPU = [dtype for dtype in LIMITS if dtype != "tf32"]


def test_operations_of_the_headline() -> None:
    # 8192: the published 718.46 TFLOPS are 1.53 ms a product.
    assert operations(8192) == 1_099_511_627_776
    assert operations(8192) / 718.46e12 == pytest.approx(1.5304e-3, rel=1e-4)


@pytest.mark.parametrize(
    ("capability", "skipped"),
    [
        ((6, 1), {"bf16", "tf32", "fp8", "int8"}),
        ((7, 0), {"bf16", "tf32", "fp8", "int8"}),  # Volta
        ((7, 5), {"bf16", "tf32", "fp8"}),  # Turing: torch calls bf16 supported, and emulates it
        ((8, 0), {"fp8"}),
        ((8, 6), {"fp8"}),
        ((8, 9), set()),
        ((9, 0), set()),
        ((10, 0), set()),  # not below 8.9 by its text
        ((12, 0), set()),
        (None, {"tf32"}),
    ],
)
def test_types_without_hardware_are_skipped(capability: tuple[int, int] | None, skipped: set[str]) -> None:
    assert {dtype for dtype in LIMITS if unsupported_reason(dtype, capability)} == skipped


def test_the_reason_has_both_capabilities() -> None:
    reason = unsupported_reason("bf16", (7, 0))
    assert reason == "bf16 needs compute capability 8.0 or higher, found 7.0: bf16 is emulated there"


@pytest.mark.parametrize("dtype", ON_CPU)
def test_a_right_product_is_within_its_limits(dtype: str) -> None:
    torch.manual_seed(3)
    product = Product(dtype, 256, "cpu")
    product.multiply()
    error = product.relative_error(16)
    assert LIMITS[dtype].low <= error <= LIMITS[dtype].high


@pytest.mark.parametrize("dtype", ON_CPU)
def test_a_product_that_was_not_computed_is_wrong(dtype: str) -> None:
    error = Product(dtype, 64, "cpu").relative_error(8)
    assert not LIMITS[dtype].low <= error <= LIMITS[dtype].high


@pytest.mark.parametrize("dtype", ["bf16", "fp16", "fp32", "int8"])
@pytest.mark.parametrize("damage", ["zero", "nan", "one element", "swapped rows"])
def test_a_damaged_product_is_wrong(dtype: str, damage: str) -> None:
    product = Product(dtype, 64, "cpu")
    product.multiply()
    if damage == "zero":
        product._c.zero_()
    elif damage == "nan":
        if dtype == "int8":
            pytest.skip("integers have no NaN")
        product._c[63, 5] = math.nan
    elif damage == "one element":
        product._c[0, 0] += 1000
    else:
        product._c.copy_(product._c.flip(0))
    error = product.relative_error(8)
    assert not LIMITS[dtype].low <= error <= LIMITS[dtype].high


def test_tf32_is_told_from_float32() -> None:
    """A product of operands rounded to tf32's 10 bits fails as float32 and passes as tf32."""
    torch.manual_seed(5)
    exact = Product("fp32", 256, "cpu")
    exact.multiply()
    assert exact.relative_error(16) < LIMITS["tf32"].low
    rounded = Product("fp32", 256, "cpu")
    a, b = rounded._a.clone(), rounded._b.clone()
    for operand in (a, b):
        bits = operand.view(torch.int32)
        bits.add_(1 << 12).bitwise_and_(~((1 << 13) - 1))
    rounded._c.copy_(a @ b)
    error = rounded.relative_error(16)
    assert error > LIMITS["fp32"].high
    assert LIMITS["tf32"].low <= error <= LIMITS["tf32"].high


def test_operands_are_random_and_differ() -> None:
    product = Product("fp32", 256, "cpu")
    assert product._a.std().item() == pytest.approx(1, abs=0.02)
    assert not torch.equal(product._a, product._b)


@pytest.mark.parametrize(("dtype", "largest"), [("int8", 127.0), ("fp8", 448.0)])
def test_quantised_operands_use_the_whole_range(dtype: str, largest: float) -> None:
    product = Product(dtype, 256, "cpu")
    assert product._a.double().abs().max().item() == largest
    assert product._b.double().abs().max().item() == largest


def test_precision_is_set_for_each_type() -> None:
    matmul = torch.backends.cuda.matmul
    before = matmul.fp32_precision
    try:
        set_precision("tf32")
        assert matmul.fp32_precision == "tf32"
        for dtype in ("fp32", "bf16"):
            set_precision(dtype)
            assert matmul.fp32_precision == "ieee"
        assert matmul.allow_fp16_accumulation is False
    finally:
        matmul.fp32_precision = before


def test_an_older_torch_gets_its_older_name() -> None:
    """Before 2.9 there is no `fp32_precision`, and the module refuses unknown names."""

    class Older:
        __slots__ = (
            "allow_bf16_reduced_precision_reduction",
            "allow_fp16_reduced_precision_reduction",
            "allow_tf32",
        )

    older, newer = Older(), torch.backends.cuda.matmul
    torch.backends.cuda.matmul = older
    try:
        set_precision("tf32")
        assert older.allow_tf32 is True
        set_precision("fp32")
        assert older.allow_tf32 is False
    finally:
        torch.backends.cuda.matmul = newer


def test_the_rate_agrees_with_a_plain_loop() -> None:
    """A loop that shares nothing with the suite finds the same rate.

    The two take turns until their best times agree, so that other work on the machine does not decide; a
    formula or a timer that is off by a factor never gets there.
    """
    size = 768
    product = Product("fp32", size, "cpu")
    a, b, c = (torch.randn(size, size) for _ in range(3))
    timer, ours, plain = CpuTimer(), math.inf, math.inf
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        ours = min(ours, *timer.time_calls(product.multiply, iterations=3))
        for _ in range(3):
            begin = time.perf_counter()
            torch.mm(a, b, out=c)
            plain = min(plain, time.perf_counter() - begin)
        if plain == pytest.approx(ours, rel=0.05):
            break
    rate = operations(size) / ours / 1e12
    assert rate == pytest.approx(2 * size * size * size / plain / 1e12, rel=0.1)
