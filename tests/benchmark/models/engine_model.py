"""The reference deployment's engine behind the plain tensors of a drawn deployment."""

import json

import numpy as np
import triton_python_backend_utils as pb_utils
from batcher import InflightBatcher, Sequence
from own import outgoing, wait_asleep
from stage import Service, gpu_of
from standin import TritonPythonModel as Standin


class StaticBatcher(InflightBatcher):
    """Takes requests in only when all of the batch before are finished."""

    def _admit(self):
        return [] if self.running else super()._admit()


class TritonPythonModel(Standin):
    def initialize(self, args):
        wait_asleep(args)
        parameters = json.loads(args["model_config"])["parameters"]
        self.prompt = int(parameters["standin_prompt_tokens"]["string_value"])
        self.random = np.random.default_rng(1)
        service = Service.of(parameters)
        self.gpu = gpu_of(args, service) if service.gpu_product else None
        super().initialize(args)
        if parameters["gpt_model_type"]["string_value"] == "V1":
            self.batcher = StaticBatcher(self.batcher.limits)

    def spend(self, started, seconds):
        if self.gpu is None:
            super().spend(started, seconds)
        else:
            self.gpu.work(seconds)

    def sequence(self, request, sender):
        data = pb_utils.get_input_tensor_by_name(request, "IN").as_numpy()
        tokens = int(self.random.integers(12, 40))
        return Sequence((sender, data), self.prompt, tokens)

    def outputs(self, sequence):
        return [outgoing("OUT", sequence.owner[1])]
