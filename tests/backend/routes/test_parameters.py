"""Every parameter is read strictly, and a refusal says what was expected."""

import pytest

from backend.routes.parameters import BadRequest, one_of, only, size, span, whole


@pytest.mark.parametrize("text", ["-1", "1.0", "abc", "", " 1", "٣", "9" * 5000, "1e3"])
def test_a_whole_number_is_digits_only(text):
    with pytest.raises(BadRequest, match="layer: expected a whole number from 0") as refused:
        whole("layer", text)
    assert len(str(refused.value)) < 120
    assert whole("layer", "007") == 7


@pytest.mark.parametrize("text", ["5:5", "9:2", "0:51", "-1:3", "a:b", "1", ":", "1:2:3", ""])
def test_a_window_lies_inside_the_sequence(text):
    with pytest.raises(BadRequest, match="rows: expected start:stop with 0 <= start < stop <= 50"):
        span("rows", text, 50)


def test_a_window_left_out_is_the_whole_axis():
    assert span("rows", None, 50) == slice(0, 50)
    assert span("rows", "3:50", 50) == slice(3, 50)


@pytest.mark.parametrize("text", ["0", "4097", "-3", "many", ""])
def test_size_has_bounds(text):
    with pytest.raises(BadRequest, match="size: expected a whole number from 1 to 4096"):
        size(text, (50, 50))


def test_a_strip_may_be_as_long_as_the_sequence():
    assert size("9000", (1, 9000)) == 9000
    with pytest.raises(BadRequest, match="at most 16777216 values"):
        size("9000", (9000, 9000))


def test_words_and_names_of_parameters_are_known_ones():
    assert one_of("how", None, ("mean", "max")) == "mean"
    with pytest.raises(BadRequest, match="how: expected one of mean, max, got 'median'"):
        one_of("how", "median", ("mean", "max"))
    with pytest.raises(BadRequest, match="no parameter 'row'; it takes rows, size"):
        only({"row": "1"}, ("rows", "size"))
