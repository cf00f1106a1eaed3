import pytest
from hypothesis import given
from hypothesis import strategies as st

from mindport.environment.version_numbers import Version, satisfies

IN_ORDER = [
    "8.0.RC2",
    "8.0.RC3",
    "8.0.0",
    "8.1.RC1",
    "8.2.RC1.alpha003",
    "8.2.RC1",
    "8.5.0",
    "9.0.0",
    "26.0.RC1",
    "26.1.0",
]


def test_versions_of_cann_and_driver_sort_as_released():
    shuffled = IN_ORDER[4:] + IN_ORDER[:4]
    assert sorted(shuffled, key=Version) == IN_ORDER


@pytest.mark.parametrize(("one", "other"), [("2.10", "2.10.0"), ("24.1.rc2", "24.1.RC2"), ("2.13.0+cpu", "2.13.0")])
def test_spellings_of_one_version_are_equal(one, other):
    assert Version(one) == Version(other)
    assert hash(Version(one)) == hash(Version(other))


def test_numbers_are_compared_as_numbers():
    assert Version("2.9.0") < Version("2.10.0")


@given(st.lists(st.tuples(*[st.integers(0, 300)] * 3), min_size=2, max_size=2))
def test_release_order_is_the_order_of_the_numbers(pair):
    one, other = (Version(".".join(map(str, numbers))) for numbers in pair)
    assert (one < other) == (pair[0] < pair[1])
    assert (one == other) == (pair[0] == pair[1])


@pytest.mark.parametrize(
    ("version", "specifier", "expected"),
    [
        ("1.26.4", ">=1.26,<2", True),
        ("2.0.0", ">=1.26,<2", False),
        ("1.25.9", ">=1.26,<2", False),
        ("2.10.7", "==2.10.*", True),
        ("2.1.0", "==2.10.*", False),
        ("2.10.0", "!=2.10.*", False),
        ("2.13.0+cpu", "==2.13.0", True),
        ("2.13.1", "==2.13.0", False),
        ("3", ">3", False),
        ("3", "<=3", True),
        ("3", "", True),
    ],
)
def test_satisfies(version, specifier, expected):
    assert satisfies(version, specifier) is expected


@pytest.mark.parametrize(("version", "specifier"), [("1.0", "~=1.0"), ("1.0", "1.0"), ("unknown", ">=1")])
def test_what_cannot_be_read_is_not_guessed(version, specifier):
    with pytest.raises(ValueError, match="is not a"):
        satisfies(version, specifier)
