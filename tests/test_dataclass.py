"""Our dataclasses behave like those of the standard library."""

import copy
import dataclasses
import inspect
import pickle
from typing import Any, ClassVar

import pytest

import gitsession.dataclass as ours

DECORATORS = {"dataclasses": dataclasses.dataclass, "gitsession": ours.dataclass}


def make(decorate: Any) -> tuple[type, type]:
    @decorate(frozen=True, slots=True)
    class Point:
        """A point."""

        kind: ClassVar[str] = "point"
        x: int
        y: int = 2
        tags: list[str] = dataclasses.field(default_factory=list, compare=False)
        hidden: str = dataclasses.field(default="secret", repr=False)

    @decorate(frozen=True, slots=True, kw_only=True)
    class Named(Point):
        name: str
        sum: int = dataclasses.field(default=0, init=False)

        def __post_init__(self) -> None:
            object.__setattr__(self, "sum", self.x + self.y)

    return Point, Named


CLASSES = {name: make(decorate) for name, decorate in DECORATORS.items()}
Point, Named = CLASSES["gitsession"]
Point.__module__ = Named.__module__ = __name__
Point.__qualname__, Named.__qualname__ = "Point", "Named"  # pickle imports a class by its name

CALLS: list[tuple[tuple[Any, ...], dict[str, Any]]] = [
    ((1,), {}),
    ((1, 3), {}),
    ((1, 3, ["a"]), {}),
    ((), {"x": 5, "hidden": "h"}),
    ((), {}),
    ((1, 2, [], "h", 5), {}),
    ((1,), {"unknown": 1}),
]


def outcome(cls: type, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    try:
        return dataclasses.asdict(cls(*args, **kwargs))
    except TypeError:
        return TypeError


@pytest.mark.parametrize(("args", "kwargs"), CALLS)
def test_init_accepts_the_same_arguments(args: Any, kwargs: Any) -> None:
    for number, extra in ((0, {}), (1, {"name": "n"})):
        results = [outcome(classes[number], args, {**kwargs, **extra}) for classes in CLASSES.values()]
        assert results[0] == results[1]


def test_signature_and_match_args_are_the_same() -> None:
    for theirs, mine in zip(CLASSES["dataclasses"], CLASSES["gitsession"], strict=True):
        assert str(inspect.signature(theirs)) == str(inspect.signature(mine))
        assert theirs.__match_args__ == mine.__match_args__


def test_equality_and_hash() -> None:
    assert Point(1, tags=["a"]) == Point(1, tags=["b"])
    assert Point(1) != Point(2) and Point(1) != (1, 2) and Point(1) != Named(x=1, name="n")
    assert hash(Named(x=1, name="n")) == hash(Named(x=1, name="n"))
    assert len({Point(1), Point(1), Point(2)}) == 2


def test_repr_is_the_same() -> None:
    theirs, mine = (classes[1](x=1, name="n") for classes in CLASSES.values())
    assert repr(mine) == repr(theirs).replace("make.<locals>.", "")


def test_fields_cannot_be_set_or_deleted() -> None:
    point = Point(1)
    with pytest.raises(dataclasses.FrozenInstanceError):
        point.x = 5
    with pytest.raises(dataclasses.FrozenInstanceError):
        del point.x
    with pytest.raises(AttributeError):
        point.other = 5
    assert not hasattr(point, "__dict__")


def test_copies_and_replaced_fields() -> None:
    named = Named(x=1, name="n", tags=["a"])
    for other in (copy.copy(named), copy.deepcopy(named), pickle.loads(pickle.dumps(named))):
        assert other == named and other.tags == ["a"] and other.sum == 3
    assert dataclasses.replace(named, x=4).sum == 6


def test_methods_of_the_class_body_are_kept() -> None:
    @ours.dataclass(frozen=True, slots=True)
    class Custom:
        x: int

        def __repr__(self) -> str:
            return "custom"

        def __eq__(self, other: object) -> bool:
            return True

        def __hash__(self) -> int:
            return 7

    assert repr(Custom(1)) == "custom" and Custom(1) == Custom(2) and hash(Custom(3)) == 7


def test_a_value_that_contains_itself_has_a_repr() -> None:
    tags: list[Any] = []
    point = Point(1, tags=tags)
    tags.append(point)
    assert "..." in repr(point)


@pytest.mark.parametrize("decorate", DECORATORS.values(), ids=DECORATORS)
def test_fields_of_other_classes_can_be_set(decorate: Any) -> None:
    @decorate(slots=True)
    class Counter:
        name: str
        seen: list[int] = dataclasses.field(default_factory=list)
        total: int = 0

        @property
        def mean(self) -> float:
            return self.total / len(self.seen)

    counter, same = Counter("a"), Counter("a")
    counter.total += 3
    counter.seen.append(3)
    assert (counter.mean, counter != same, same.seen) == (3, True, [])
    same.total, same.seen = 3, [3]
    assert counter == same == copy.copy(counter)
    assert repr(counter).endswith("Counter(name='a', seen=[3], total=3)")
    assert dataclasses.replace(counter, total=5).total == 5
    del counter.total
    assert not hasattr(counter, "total")
    with pytest.raises(TypeError, match="unhashable"):
        hash(counter)
    with pytest.raises(AttributeError):
        counter.other = 1
