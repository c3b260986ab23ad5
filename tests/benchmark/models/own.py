"""What stages and engines of drawn deployments do in their own way: answer under any numpy, and wait for a card."""

import ctypes

import numpy as np
import triton_python_backend_utils as pb_utils

# CU_CTX_SCHED_BLOCKING_SYNC of CUDA's driver API.
_BLOCKING = 4


def outgoing(name, values):
    """Return an output tensor of its own memory.

    Through DLPack where numpy is 2, whose own tensors this backend takes for empty; numpy 1 frees what left that way
    again and again, without end (1.26.4).
    """
    array = np.array(values, copy=True)
    return pb_utils.Tensor(name, array) if np.__version__ < "2" else pb_utils.Tensor.from_dlpack(name, array)


def wait_asleep(args):
    """Have an instance on a card sleep while the card computes; by default it keeps a processor busy meanwhile."""
    if args["model_instance_kind"] != "GPU":
        return
    try:
        cuda = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return
    cuda.cuInit(0)
    cuda.cuDevicePrimaryCtxSetFlags_v2(int(args["model_instance_device_id"]), _BLOCKING)
