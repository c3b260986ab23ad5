from __future__ import annotations

import pytest

from diagnostics.window.points import Counter, Numbers

VALUES = {Counter.SUCCESS: 5.0, Counter.FAILURE: 0.0, Counter.QUEUE_SECONDS: 0.25}


def test_numbers_are_what_the_dictionary_was():
    numbers = Numbers(VALUES)
    assert numbers == VALUES
    assert (dict(numbers), list(numbers.items()), len(numbers)) == (VALUES, list(VALUES.items()), 3)
    assert Counter.SUCCESS in numbers
    assert Counter.EXECUTIONS not in numbers
    assert numbers.get(Counter.EXECUTIONS) is None
    with pytest.raises(KeyError):
        numbers[Counter.EXECUTIONS]


def test_a_difference_is_of_the_keys_that_both_have():
    later = Numbers({Counter.FAILURE: 1.0, Counter.SUCCESS: 7.0, Counter.EXECUTIONS: 3.0})
    assert later.less(Numbers(VALUES)) == {Counter.FAILURE: 1.0, Counter.SUCCESS: 2.0}
    assert Numbers(VALUES).less(Numbers(VALUES)) == dict.fromkeys(VALUES, 0.0)
