import pytest
from bakery_example_cpp import edit_distance


@pytest.mark.parametrize(
    ("left", "right", "expected"),
    [("", "", 0), ("", "abc", 3), ("kitten", "sitting", 3), ("flour", "flower", 2), ("Brötchen", "Brotchen", 1)],
)
def test_distance(left, right, expected):
    assert edit_distance(left, right) == expected
    assert edit_distance(right, left) == expected


def test_takes_text_only():
    with pytest.raises(TypeError):
        edit_distance("a", b"a")
