"""The reference deployment's engine behind the plain tensors of a drawn deployment."""

import numpy as np
import triton_python_backend_utils as pb_utils
from batcher import Sequence
from standin import TritonPythonModel as Standin


class TritonPythonModel(Standin):
    def initialize(self, args):
        super().initialize(args)
        self.random = np.random.default_rng(1)

    def sequence(self, request, sender):
        data = pb_utils.get_input_tensor_by_name(request, "IN").as_numpy()
        tokens = int(self.random.integers(12, 40))
        return Sequence((sender, data), 48, tokens)

    def outputs(self, sequence):
        return [pb_utils.Tensor("OUT", sequence.owner[1])]
