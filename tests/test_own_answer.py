"""What is written into a "your turn" cell: numbers as text, and what is none."""

from importlib import import_module

import pytest
import torch

from utils.show import own_answer
from utils.show.explain import Sentence

NUMERIC = ("04", "06", "07", "08", "09", "10", "11", "12", "13", "14")


@own_answer.in_unit("µs")
def judge(mine, *, more=0):
    return mine, more


@pytest.mark.parametrize(
    ("mine", "number"),
    [(None, None), (250, 250), (2.5, 2.5), ("250", 250.0), ("250 µs", 250.0), ("0.25 ms", 250.0), ("2,5", 2.5)],
)
def test_a_number_is_taken_as_it_is_and_text_is_read(mine, number):
    assert judge(mine, more=1) == (number, 1)


def test_more_than_one_number_and_a_tensor_of_one():
    assert judge([1, "2", None]) == ([1, 2.0, None], 0) and judge({"a": "3 ms"}) == ({"a": 3000.0}, 0)
    assert judge(torch.tensor(4.0)) == (4.0, 0)


@pytest.mark.parametrize(
    ("mine", "said"),
    [
        ("lots", "“lots” is not a number"),
        ("200 steps", "the answer is in µs"),
        ("1,200", "read in two ways"),
        (True, "but a bool"),
        (torch.zeros(3), "but a Tensor"),
        (["1", "x"], "“x” is not a number"),
    ],
)
def test_what_is_no_number_is_a_sentence(mine, said):
    found = judge(mine)
    assert isinstance(found, Sentence) and said in str(found) and str(found).endswith("run this cell again.")


@pytest.mark.parametrize("lesson", NUMERIC)
def test_every_lesson_that_asks_for_a_number_takes_text(lesson):
    assert "is not a number" in str(import_module(f"utils.show.lesson{lesson}").transfer("lots"))
