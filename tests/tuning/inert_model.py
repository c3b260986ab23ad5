"""A model for Triton's Python backend that answers any request with ones; decoupled ones answer once, too."""

import json

import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def initialize(self, args):
        self.config = json.loads(args["model_config"])
        self.decoupled = self.config.get("model_transaction_policy", {}).get("decoupled", False)

    def execute(self, requests):
        if not self.decoupled:
            return [self.answer() for _ in requests]
        for request in requests:
            final = pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL
            request.get_response_sender().send(self.answer(), flags=final)
        return None

    def answer(self):
        return pb_utils.InferenceResponse([self.output(field) for field in self.config["output"]])

    def output(self, field):
        shape = [1] * (self.config["max_batch_size"] > 0) + [max(1, int(size)) for size in field["dims"]]
        kind = pb_utils.triton_string_to_numpy(field["data_type"])
        return pb_utils.Tensor(field["name"], np.full(shape, b"1" if kind is np.object_ else 1, dtype=kind))
