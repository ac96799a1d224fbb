"""Every private torch call: its probe says whether it is there, and its fallback is what the file says."""

from __future__ import annotations

import ctypes
import sys

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


def test_a_witness_needs_a_library_that_can_be_taken_back_and_the_kernel_that_stood_there(monkeypatch):
    assert seams.has_witness()
    a, b = torch.rand(1), torch.rand(1)
    kernel = seams.kernel_at("aten::add.Tensor", "CPU")
    assert torch.equal(kernel(seams.key_set(a), a, b), a + b)
    below = seams.keys_below(seams.key_set(a), "AutogradCPU")
    assert seams.highest_key(below) == "ADInplaceOrView"
    below = seams.without_key(below, "ADInplaceOrView")  # the add falls through there
    assert torch.equal(seams.redispatch(torch.ops.aten.add.Tensor, below, a, b), a + b)
    monkeypatch.delattr("torch._C._dispatch_get_computed_kernel_for_dispatch_key")
    assert not seams.has_witness()


def test_layers_are_made_of_what_torch_documents_and_each_seam_has_its_fallback(monkeypatch):
    class Wrapper(torch.Tensor):
        __torch_function__ = seams.no_torch_function()
        __torch_dispatch__ = classmethod(lambda cls, function, types, args=(), kwargs=None: None)

    inner = torch.rand(3, 2).t()
    made = seams.wrapper_around(Wrapper, inner)
    assert type(made) is Wrapper and made.shape == inner.shape and made.stride() == inner.stride()
    assert seams.over_all(lambda n: n + 1, ([1, (2,)], {"k": 3})) == ([2, (3,)], {"k": 4})
    with seams.fake_mode() as mode:
        assert type(mode.from_tensor(torch.rand(1))).__name__ == "FakeTensor"
    monkeypatch.delattr("torch._C._disabled_torch_function_impl")

    class Other(torch.Tensor):
        __torch_function__ = seams.no_torch_function()

    assert float(torch.ones(1).as_subclass(Other) + 1) == 2.0


def test_a_graph_backend_says_what_torch_lost(monkeypatch):
    """That it works is in tests/test_dispatcher.py: compiling takes seconds."""
    monkeypatch.setitem(sys.modules, "functorch.compile", None)
    with pytest.raises(RuntimeError, match="no backend"):
        seams.graph_backend([], lambda module: None)


def test_generated_code_is_known_by_name_and_missed_in_words(monkeypatch):
    assert seams.has_generated_code()
    monkeypatch.setitem(sys.modules, "torch._inductor.utils", None)
    assert not seams.has_generated_code()
    with pytest.raises(RuntimeError, match="no longer shows"):
        seams.generated_code(None)


def test_an_overload_finds_its_sibling_that_takes_the_output_and_what_it_writes_to():
    aten = torch.ops.aten
    assert seams.has_out_overloads()
    assert seams.overload_named("aten::add.Tensor") is aten.add.Tensor and seams.overload_named("aten::mm") is aten.mm.default
    assert seams.out_overload(aten.mm.default) == (aten.mm.out, ("out",))
    assert seams.out_overload(aten.view.default) is None and seams.out_overload(object()) is None
    assert seams.written_arguments(aten.add_.Tensor) == ("self",) and seams.written_arguments(aten.add.Tensor) == ()
    assert seams.argument_names(aten.mm.default) == ("self", "mat2") and seams.argument_names(object()) == ()


def test_a_torch_that_does_not_open_its_graphs_gives_a_plain_one_and_no_number_of_nodes(monkeypatch):
    assert seams.has_kept_graphs()
    monkeypatch.setattr(torch.cuda, "CUDAGraph", lambda: "a plain graph")
    assert not seams.has_kept_graphs() and seams.cuda_graph() == "a plain graph" and seams.cuda_graph_nodes("any") is None


def test_what_the_compiler_lost_is_named(monkeypatch):
    assert seams.has_aot_inductor() and seams.has_joint_graph()
    with seams.nothing_cached():
        pass
    monkeypatch.delattr("torch._inductor.aoti_compile_and_package")
    assert not seams.has_aot_inductor()
    with pytest.raises(RuntimeError, match="aoti_compile_and_package"):
        seams.compiled_ahead(None, "")
    monkeypatch.setattr(seams, "_fresh_cache", lambda: None)
    with pytest.raises(RuntimeError, match="fresh_cache"):
        seams.nothing_cached()
    monkeypatch.delattr("torch._functorch.aot_autograd.aot_export_joint_simple")
    assert not seams.has_joint_graph()
    with pytest.raises(RuntimeError, match="joint"):
        seams.joint_graph(torch.relu, (torch.randn(2),))


def test_an_op_on_a_list_is_the_op_on_each_and_is_missed_by_name(monkeypatch):
    a, b = torch.rand(2), torch.rand(3)
    assert seams.has_foreach()
    more = seams.foreach("add")([a, b], 1.0)
    assert all(torch.equal(got, x + 1) for got, x in zip(more, (a, b), strict=True))
    monkeypatch.delattr("torch._foreach_add")
    assert not seams.has_foreach()
    with pytest.raises(RuntimeError, match="no op 'add' on lists"):
        seams.foreach("add")
