"""What requests are made of: a model's configuration, or a file."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from diagnostics.errors import UsageError
from diagnostics.loadgen.inputs import VARIANTS, make_requests, read_requests, sampling
from tests.loadgen.fake_server import config


def test_requests_ask_for_answers_of_one_length_and_leave_other_optional_inputs_out() -> None:
    made = make_requests(config(), length=5, max_tokens=7, seed=1, streaming=False)
    one = {name: array.tolist() for name, array in made.values[0].items()}
    text = one.pop("text_input")[0][0].decode()
    fixed = {"max_tokens": [[7]], "min_tokens": [[7]], "end_id": [[-1]], "top_k": [[1]]}
    assert one == fixed | {"return_num_output_tokens": [[True]]}
    assert len(text.split()) == 5
    assert made.sampling.asked == ("max_tokens", "min_tokens", "ignore_eos", "greedy")
    assert len(made.values) == VARIANTS


def test_equal_seeds_make_equal_requests_whatever_tensors_are_called() -> None:
    text = json.dumps(config(max_batch_size=0))
    renamed = json.loads(text.replace("text_input", "QUERY").replace("max_tokens", "request_output_len"))
    first, same, named, other = (
        make_requests(each, length=5, max_tokens=7, seed=seed, streaming=False).digest
        for each, seed in ((config(), 1), (config(), 1), (renamed, 1), (config(), 2))
    )
    assert first == same == named != other


def test_a_vllm_model_is_asked_in_its_own_words() -> None:
    inputs = [{"name": name} for name in ("text_input", "sampling_parameters", "stream", "return_num_output_tokens")]
    found = sampling({"input": inputs}, 9, streaming=True)
    asked = json.loads(str(found.values["sampling_parameters"]))
    assert asked == {"max_tokens": 9, "min_tokens": 9, "ignore_eos": True, "temperature": 0}
    assert found.values["stream"] is True
    assert found.values["return_num_output_tokens"] is True


def test_tensors_are_drawn_within_the_models_shapes() -> None:
    kinds = ("FP32", "FP16", "INT8", "INT64", "UINT8", "BOOL")
    inputs = [{"name": kind, "data_type": f"TYPE_{kind}", "dims": ["-1", "2"]} for kind in kinds]
    made = make_requests({"name": "m", "input": inputs}, length=3, max_tokens=1, seed=1, streaming=False)
    assert {array.shape for array in made.values[0].values()} == {(3, 2)}
    assert (made.sampling.max_tokens, made.text) == (None, False)
    assert made.values[0]["INT8"].min() >= 0
    assert made.length == 3
    fixed = {"name": "m", "input": [{"name": "x", "data_type": "TYPE_FP32", "dims": ["2"]}]}
    assert make_requests(fixed, length=3, max_tokens=1, seed=1, streaming=False).length is None


def test_a_model_that_keeps_state_is_refused() -> None:
    with pytest.raises(UsageError, match="keeps state between requests"):
        make_requests(config(sequence_batching={}), length=1, max_tokens=1, seed=1, streaming=False)


@pytest.mark.parametrize(
    ("line", "stated"),
    [
        ("", "holds no request"),
        ("[]", "r.jsonl:1: is no JSON object"),
        ('{"text_input": "a"}\n{', "r.jsonl:2: cannot be used"),
        ('{"query": "a"}', "no input 'query'; its inputs are text_input"),
        ('{"max_tokens": "many"}', "r.jsonl:1: cannot be used: max_tokens takes INT32, not 'many'"),
        ('{"max_tokens": 1.5}', "max_tokens takes INT32, not '1.5'"),
        ('{"max_tokens": 4294967296}', "max_tokens takes INT32, and a number is out of its range"),
        ('{"text_input": {"a": 1}}', "text_input takes BYTES"),
        ('{"text_input": "\\ud800"}', "text_input has half a character"),
        ('{"text_input": ["a", "b"]}', "text_input takes the sizes [1], not 2"),
        ('{"text_input": "a"}\n{"top_k": 1}', "r.jsonl:2: cannot be used: the model also takes text_input"),
        ('{"text_input": ' + "[" * 10**5, "r.jsonl:1: cannot be used: its values are nested too deeply"),
    ],
)
def test_a_file_of_requests_that_does_not_fit_is_refused_with_its_line(line: str, stated: str, tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    path.write_text(line)
    with pytest.raises(UsageError) as raised:
        read_requests(config(), path, max_tokens=4, streaming=False)
    assert stated in str(raised.value)


def test_a_file_of_requests_is_sent_and_wins_over_what_is_requested(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    # Some editors begin a file with a byte order mark, and U+2028 ends no line of JSON.
    path.write_text('\ufeff{"text_input": "why?", "max_tokens": 2}\n{"text_input": ["how\u2028?"]}\n', "utf-8")
    found = read_requests(config(), path, max_tokens=9, streaming=False)
    first, second = found.values
    assert first["text_input"].tolist() == [[b"why?"]]
    assert second["text_input"].tolist() == [["how\u2028?".encode()]]
    assert (first["max_tokens"].tolist(), second["max_tokens"].tolist()) == ([[2]], [[9]])
    assert (first["min_tokens"].tolist(), second["min_tokens"].tolist()) == ([[2]], [[9]])
    assert found.sampling.max_tokens == 9
    path.write_text('{"text_input": "why?", "max_tokens": 2}\n')
    assert read_requests(config(), path, max_tokens=9, streaming=False).sampling.max_tokens == 2
