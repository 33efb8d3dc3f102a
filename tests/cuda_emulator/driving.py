"""The driver and NVRTC called with ctypes, as a small wrapper for tests of the emulator itself."""

import ctypes
from ctypes import byref, c_char_p, c_size_t, c_uint, c_ulonglong, c_void_p
from functools import cache

import numpy as np

import cuda_emulator

SUCCESS, INVALID_VALUE, OUT_OF_MEMORY, NOT_READY = 0, 1, 2, 600
INVALID_IMAGE, INVALID_CONTEXT, INVALID_HANDLE, NOT_FOUND = 200, 201, 400, 500
ILLEGAL_ADDRESS, ASSERT, MISALIGNED_ADDRESS, LAUNCH_FAILED = 700, 710, 716, 719
NVRTC_COMPILATION = 6
NON_BLOCKING = 1


class CompileError(Exception):
    """A text that does not compile; its message is the log."""


class Machine:
    """A process's view of the emulator, with one device current."""

    def __init__(self, path):
        self.library = ctypes.CDLL(str(path))
        assert self.library.cuInit(0) == SUCCESS
        self.use_device(0)

    def use_device(self, index):
        context = c_void_p()
        assert self.library.cuDevicePrimaryCtxRetain(byref(context), index) == SUCCESS
        assert self.library.cuCtxSetCurrent(context) == SUCCESS

    def compile(self, text, options=(), name="test.cu"):
        """Compile a text; return the cubin."""
        nvrtc, program, nbytes = self.library, c_void_p(), c_size_t()
        assert nvrtc.nvrtcCreateProgram(byref(program), text.encode(), name.encode(), 0, 0, 0) == 0
        words = (c_char_p * len(options))(*(option.encode() for option in options))
        status = nvrtc.nvrtcCompileProgram(program, len(options), words)
        nvrtc.nvrtcGetProgramLogSize(program, byref(nbytes))
        log = ctypes.create_string_buffer(nbytes.value)
        nvrtc.nvrtcGetProgramLog(program, log)
        nvrtc.nvrtcGetCUBINSize(program, byref(nbytes))
        cubin = ctypes.create_string_buffer(max(nbytes.value, 1))
        nvrtc.nvrtcGetCUBIN(program, cubin)
        assert nvrtc.nvrtcDestroyProgram(byref(program)) == 0
        if status != 0:
            assert status == NVRTC_COMPILATION
            raise CompileError(log.value.decode())
        return cubin.raw

    def load(self, text, name, options=()):
        """Compile a text and return a function of it."""
        return self.function(self.module(self.compile(text, options)), name)

    def module(self, cubin):
        module = c_void_p()
        assert self.library.cuModuleLoadData(byref(module), cubin) == SUCCESS
        return module

    def function(self, module, name):
        function = c_void_p()
        status = self.library.cuModuleGetFunction(byref(function), module, name.encode())
        assert status == SUCCESS, status
        return function

    def allocate(self, nbytes):
        data = c_ulonglong()
        status = self.library.cuMemAlloc_v2(byref(data), c_size_t(nbytes))
        assert status == SUCCESS, status
        return data.value

    def free(self, data):
        assert self.library.cuMemFree_v2(c_ulonglong(data)) == SUCCESS

    def stream(self, flags=NON_BLOCKING):
        stream = c_void_p()
        assert self.library.cuStreamCreateWithPriority(byref(stream), flags, 0) == SUCCESS
        return stream

    def event(self, flags=0):
        event = c_void_p()
        assert self.library.cuEventCreate(byref(event), flags) == SUCCESS
        return event

    def pinned(self, count, dtype):
        """Return an array in pinned memory."""
        data, nbytes = c_void_p(), count * np.dtype(dtype).itemsize
        assert self.library.cuMemHostAlloc(byref(data), c_size_t(nbytes), 0) == SUCCESS
        return np.frombuffer((ctypes.c_char * nbytes).from_address(data.value), dtype)

    def launch(self, function, grid, block, arguments, shared=0, stream=None):
        """Launch with a struct of arguments in one buffer; return the status."""
        grid, block = (*grid, 1, 1)[:3], (*block, 1, 1)[:3]
        nbytes = c_size_t(ctypes.sizeof(arguments))
        extra = (c_void_p * 5)(
            1, ctypes.addressof(arguments), 2, ctypes.addressof(nbytes), None
        )  # CU_LAUNCH_PARAM_BUFFER_POINTER, CU_LAUNCH_PARAM_BUFFER_SIZE, the end
        sizes = [c_uint(size) for size in (*grid, *block)]
        return self.library.cuLaunchKernel(function, *sizes, c_uint(shared), stream, None, extra)

    def copy(self, to, source, nbytes, stream=None):
        """Copy; return the status."""
        return self.library.cuMemcpyAsync(
            c_ulonglong(to), c_ulonglong(source), c_size_t(nbytes), stream
        )

    def upload(self, values, stream=None):
        """Return new device memory with the values of an array."""
        values = np.ascontiguousarray(values)
        data = self.allocate(max(values.nbytes, 1))
        assert self.copy(data, values.ctypes.data, values.nbytes, stream) == SUCCESS
        return data

    def download(self, data, count, dtype, stream=None):
        """Return device memory as an array."""
        values = np.empty(count, dtype)
        status = self.copy(values.ctypes.data, data, values.nbytes, stream)
        assert status == SUCCESS, status
        return values

    def synchronize(self, stream=None):
        """Wait for a stream, or for the device; return the status."""
        if stream is None:
            return self.library.cuCtxSynchronize()
        return self.library.cuStreamSynchronize(stream)


def arguments(**fields):
    """Return a struct of arguments: ints of 64 bits, which pointers are, and values of ctypes."""
    values = {
        name: c_ulonglong(value) if isinstance(value, int) else value
        for name, value in fields.items()
    }
    kind = type(
        "Arguments",
        (ctypes.Structure,),
        {"_fields_": [(name, type(value)) for name, value in values.items()]},
    )
    return kind(**values)


@cache
def shared_machine():
    return Machine(cuda_emulator.library())


def machine_without_errors():
    """Yield the emulator with device 0 current; then see that no error is left behind."""
    machine = shared_machine()
    machine.use_device(0)
    yield machine
    machine.use_device(0)
    assert machine.synchronize() == SUCCESS


def run_kernel(machine, body, out_count, dtype, grid=(1,), block=(32,), shared=0, data=None):
    """Run a kernel whose text is `body`, with `out` and `in`; return what it wrote."""
    kind = {"int32": "int", "float32": "float", "float64": "double", "int64": "long long"}[dtype]
    text = f"""
        struct Arguments {{ {kind}* out; const {kind}* in; long long count; }};
        TAPEGRAD_KERNEL(kernel, Arguments) {{
          {kind}* out = arguments.out;
          const {kind}* in = arguments.in;
          const int i = blockIdx.x * blockDim.x + threadIdx.x;
          {body}
        }}
    """
    function = machine.load(text, "kernel")
    values = np.zeros(1, dtype) if data is None else np.asarray(data, dtype)
    source = machine.upload(values)
    out = machine.upload(np.zeros(out_count, dtype))
    given = arguments(out=out, source=source, count=values.size)
    assert machine.launch(function, grid, block, given, shared) == SUCCESS
    result = np.empty(out_count, dtype)
    status = machine.copy(result.ctypes.data, out, result.nbytes)
    machine.free(source)
    machine.free(out)
    return result if status == SUCCESS else status
