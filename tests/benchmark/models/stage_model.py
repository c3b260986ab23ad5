"""A stage of a drawn deployment: takes its time and hands its input on."""

import triton_python_backend_utils as pb_utils
from stage import Stage, tensor


class TritonPythonModel(Stage):
    def answer(self, request):
        return [pb_utils.Tensor("OUT", tensor(request, "IN"))]
