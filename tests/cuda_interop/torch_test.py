#!/usr/bin/env python3
"""Weir and PyTorch in one process: a stream that PyTorch made, and tensors both ways. usage: torch_test.py LIBRARY"""

import ctypes
import gc
import sys

SKIPPED = 77
N = 1 << 16

try:
    import torch
except ImportError:
    print("skipped: no PyTorch here")
    sys.exit(SKIPPED)
if not torch.cuda.is_available():
    print("skipped: PyTorch sees no GPU")
    sys.exit(SKIPPED)

weir = ctypes.CDLL(sys.argv[1])
weir.weir_probe_error.restype = ctypes.c_char_p
weir.weir_probe_scale.argtypes = [ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_float]
weir.weir_probe_scale_tensor.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int, ctypes.c_float]
weir.weir_probe_tensor.argtypes = [ctypes.c_int, ctypes.c_size_t, ctypes.c_float, ctypes.c_int64, ctypes.c_int]
weir.weir_probe_tensor.restype = ctypes.c_void_p
weir.weir_probe_host_tensor.argtypes = [ctypes.c_size_t, ctypes.c_size_t, ctypes.c_int]
weir.weir_probe_host_tensor.restype = ctypes.c_void_p
weir.weir_probe_used.argtypes = [ctypes.c_int]
weir.weir_probe_used.restype = ctypes.c_size_t

python = ctypes.pythonapi
python.PyCapsule_New.restype = ctypes.py_object
python.PyCapsule_New.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
python.PyCapsule_GetPointer.restype = ctypes.c_void_p
python.PyCapsule_GetPointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
python.PyCapsule_SetName.argtypes = [ctypes.py_object, ctypes.c_char_p]
NAMES = {0: b"dltensor", 1: b"dltensor_versioned"}


def expect(condition, what):
    if not condition:
        sys.exit(f"FAILED: {what}: {weir.weir_probe_error().decode()}")
    print(f"ok: {what}")


class Exported:
    """An array of Weir's as the array API wants it: `make(stream, versioned)` gives the tensor."""

    def __init__(self, make, device, versioned):
        self.make, self.device, self.versioned = make, device, versioned

    def __dlpack_device__(self):
        return self.device

    def __dlpack__(self, *, stream=None, max_version=None, dl_device=None, copy=None):
        # NumPy and PyTorch look at the name before the version: an old consumer must get the old struct.
        versioned = self.versioned if max_version is not None else 0
        tensor = self.make(stream, versioned)
        expect(tensor, "Weir exports a tensor")
        return python.PyCapsule_New(tensor, NAMES[versioned], None)


def wrapped_stream():
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        x = torch.ones(N, device="cuda")
        torch.cuda._sleep(20_000_000)
        x += 1  # 2, later
        failed = weir.weir_probe_scale(stream.cuda_stream, 0, x.data_ptr(), N, 5.0)
        y = x + 1  # 11
    expect(not failed, "a kernel of Weir on a stream that PyTorch made")
    stream.synchronize()
    expect(bool((y == 11).all()), "it ran between PyTorch's own kernels")
    failed = weir.weir_probe_scale(torch.cuda.default_stream().cuda_stream, 0, y.data_ptr(), N, 2.0)
    expect(not failed and bool((y == 22).all()), "the same on PyTorch's default stream")


def tensor_of_torch():
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        x = torch.full((N,), 3.0, device="cuda")
        torch.cuda._sleep(20_000_000)
        x += 1
        capsule = x.__dlpack__(stream=stream.cuda_stream)
        tensor = python.PyCapsule_GetPointer(capsule, b"dltensor")
        python.PyCapsule_SetName(capsule, b"used_dltensor")
        failed = weir.weir_probe_scale_tensor(tensor, stream.cuda_stream, 0, 10.0)
        y = x + 2
    stream.synchronize()
    expect(not failed and bool((y == 42).all()), "a tensor of PyTorch's, used by Weir in place and in order")


def tensor_of_weir(versioned):
    before = weir.weir_probe_used(0)
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        make = lambda number, v: weir.weir_probe_tensor(0, N, 6.0, 1 if number is None else number, v)
        x = torch.from_dlpack(Exported(make, (2, 0), versioned))
        y = x * 7
    stream.synchronize()
    expect(bool((y == 42).all()), f"an array of Weir's, used by PyTorch in order (versioned: {versioned})")
    expect(weir.weir_probe_used(0) > before, "its memory lives while PyTorch has it")
    del x
    gc.collect()
    expect(weir.weir_probe_used(0) == before, "and goes back when PyTorch lets go")


def host_tensor(versioned):
    import numpy

    make = lambda number, v: weir.weir_probe_host_tensor(3, 4, v)
    expected = numpy.arange(12, dtype=numpy.float32).reshape(3, 4).T
    x = torch.from_dlpack(Exported(make, (1, 0), versioned))
    expect((x.numpy() == expected).all(), f"a transposed host array in PyTorch (versioned: {versioned})")
    y = numpy.from_dlpack(Exported(make, (1, 0), versioned))
    expect((y == expected).all(), f"the same in NumPy (versioned: {versioned})")


wrapped_stream()
tensor_of_torch()
for v in (0, 1):
    tensor_of_weir(v)
    host_tensor(v)
