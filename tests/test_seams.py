"""Every private torch call: its probe says whether it is there, and its fallback is what the file says."""

from __future__ import annotations

import ctypes

import pytest
import torch

from utils.measure import seams

ADDRESS = "torch.Tensor._cdata"  # as text: the name is taken away here, and used in seams.py only


def test_the_spinning_kernel_is_known_by_name_and_missed_in_words(monkeypatch):
    assert seams.has_cuda_spin()
    monkeypatch.delattr("torch.cuda._sleep")
    assert not seams.has_cuda_spin()
    with pytest.raises(RuntimeError, match="cannot be gated"):
        seams.cuda_spin(100)


def test_a_pybind_call_reads_a_flag_or_is_none(monkeypatch):
    call = seams.pybind_call()
    if call is not None:
        assert call(torch.rand(1)) is False
    monkeypatch.delattr("torch._C._is_cow_tensor", raising=False)
    assert seams.pybind_call() is None


def test_an_impl_address_belongs_to_one_tensor_and_takes_no_reference():
    a, b = torch.rand(2), torch.rand(2)
    assert seams.has_impl_address()
    assert seams.impl_address(a) == seams.impl_address(a) != seams.impl_address(b)
    assert seams.impl_address(a) != seams.impl_address(a.view(-1))  # a view is another TensorImpl over the same storage


def test_without_the_address_the_seam_says_what_is_lost(monkeypatch):
    monkeypatch.setattr(ADDRESS, None, raising=False)
    assert not seams.has_impl_address()
    with pytest.raises(RuntimeError, match="cannot borrow"):
        seams.impl_address(torch.rand(1))


def test_valgrinds_requests_do_nothing_outside_valgrind_and_are_missed_by_name(monkeypatch):
    assert seams.has_valgrind_toggle()
    monkeypatch.delattr("torch._C._valgrind_toggle_and_dump_stats")
    assert not seams.has_valgrind_toggle()


def test_key_sets_are_combined_and_named():
    a = torch.rand(2)
    keys = seams.key_set(a)
    included, excluded = seams.thread_key_sets()
    assert seams.dispatcher_missing() == ()
    assert seams.keys_among(keys, ("Undefined", "NoSuchKey", "CPU", "CUDA", "AutogradCPU")) == ("CPU", "AutogradCPU")
    assert "AutocastCPU" in seams.keys_among(excluded, ("CPU", "AutocastCPU"))
    assert seams.keys_among(seams.without_key(keys, "CPU"), ("CPU", "AutogradCPU")) == ("AutogradCPU",)
    assert seams.keys_among(seams.keys_below(keys, "AutogradCPU"), ("CPU", "AutogradCPU")) == ("CPU",)
    assert "AutogradCPU: registered at" in seams.dispatch_table("aten::add.Tensor")


def test_a_lost_dispatcher_name_is_named(monkeypatch):
    monkeypatch.delattr("torch._C._dispatch_dump_table")
    assert seams.dispatcher_missing() == ("_dispatch_dump_table",)


def test_a_schema_is_text_and_falls_back_to_the_overloads_name():
    assert seams.schema_of(torch.ops.aten.add.Tensor).startswith("aten::add.Tensor(Tensor self")
    assert seams.schema_of("aten.add.Tensor") == "aten.add.Tensor"


def test_a_kernel_compiled_at_run_time_has_a_handle_and_is_missed_in_words(monkeypatch):
    assert seams.has_cuda_kernels()

    class Compiled:
        func = ctypes.c_void_p(4711)

    assert seams.cuda_kernel_handle(Compiled()) == 4711
    with pytest.raises(RuntimeError, match=r"`\.func`"):
        seams.cuda_kernel_handle(object())
    monkeypatch.delattr("torch.cuda._compile_kernel")
    assert not seams.has_cuda_kernels()
    with pytest.raises(RuntimeError, match="at run time"):
        seams.cuda_kernel("", "nothing")


def test_torchs_own_launch_is_an_address_or_none_and_a_cuda_build_without_it_is_told(monkeypatch):
    address = seams.torch_launch()
    assert (address is None) == (torch.version.cuda is None) and seams.has_torch_launch()
    monkeypatch.setattr(seams, "torch_launch", lambda: None)
    monkeypatch.setattr(torch.version, "cuda", "13.0")
    assert not seams.has_torch_launch()
