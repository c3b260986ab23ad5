"""Calls the stages of a drawn deployment one after another, and holds its instance meanwhile."""

import json

import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def initialize(self, args):
        self.models = json.loads(args["model_config"])["parameters"]["standin_calls"]["string_value"].split(",")

    def execute(self, requests):
        return [self._answer(request) for request in requests]

    def _answer(self, request):
        data = pb_utils.get_input_tensor_by_name(request, "IN").as_numpy()
        for model in self.models:
            inner = pb_utils.InferenceRequest(
                model_name=model,
                requested_output_names=["OUT"],
                inputs=[pb_utils.Tensor("IN", data)],
                trace=request.trace(),
            )
            response = inner.exec()
            if response.has_error():
                return pb_utils.InferenceResponse(error=response.error())
            data = pb_utils.get_output_tensor_by_name(response, "OUT").as_numpy()
        return pb_utils.InferenceResponse(output_tensors=[pb_utils.Tensor("OUT", data)])
