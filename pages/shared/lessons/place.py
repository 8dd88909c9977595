"""Where somebody is in a lesson, read from the address, and the view that the step sets there.

Parameters: lesson = its name; step = from 1; shown = the last step whose answer was shown; guess = the predictions so
far, as "2b4a" (step 2, second choice; step 4, first). What a person changes in the picture (head, window, marked cell)
stands in the address as on every page and goes before what the step sets.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from pages.shared.lessons import Lesson, Step, find
from pages.shared.view_state import ViewState, shorten

GUESS = re.compile(r"([1-9])([a-f])")
LETTERS = "abcdef"
VIEW_OF_STEP = ("analysis", "kind", "layer", "head", "rows", "columns", "query", "key", "measure")
LOOK_OF_STEP = ("scale", "how", "hide", "direction")
PARAMETERS = ("lesson", "step", "shown", "guess", "present", "tried")


@dataclass(frozen=True)
class Place:
    """One step of one lesson, as far as somebody has come."""

    lesson: Lesson
    number: int  # of the step, from 1
    shown: int  # the last step whose answer was shown
    guesses: dict[int, int]  # step -> index of the choice

    @property
    def step(self) -> Step:
        return self.lesson.steps[self.number - 1]

    @property
    def revealed(self) -> bool:
        return not self.step.hides or self.number <= self.shown

    @property
    def drawn(self) -> bool:
        """Whether the picture is shown by now."""
        return self.revealed or not self.step.view.later

    @property
    def guess(self) -> int | None:
        return self.guesses.get(self.number)

    @property
    def foreseen(self) -> tuple[int, int]:
        """Predictions that were right, and predictions made."""
        made = [(self.lesson.steps[number - 1], choice) for number, choice in self.guesses.items()]
        return sum(step.answer == choice for step, choice in made), len(made)


def place_of(state: ViewState) -> Place | None:
    """The place that a fitted state names; None = the list of lessons."""
    lesson = find(state.more("lesson"))
    if lesson is None:
        return None
    return Place(lesson, int(state.more("step", "1")), int(state.more("shown", "0")), guesses_of(state, lesson))


def fitted(state: ViewState) -> tuple[ViewState, list[str]]:
    """The nearest place there is, and what had to change."""
    name = state.more("lesson")
    if not name:
        return state.with_more(step=None, shown=None, guess=None, present=None), []
    lesson = find(name)
    if lesson is None:
        kept = state.with_more(**dict.fromkeys(PARAMETERS))
        return kept, [f"There is no lesson {shorten(name)!r}; here are those there are."]
    notices: list[str] = []
    last = len(lesson.steps)
    step = _number("step", state.more("step", "1"), 1, last, notices)
    shown = _number("shown", state.more("shown", "0"), 0, last, notices)
    guesses = guesses_of(state, lesson)
    role = state.more("present")
    if role == "1" and state.theme == "auto":
        state = replace(state, theme="projector")  # a room sees dark on white, large
    return state.with_more(
        present=role if role in ("1", "notes") else None,
        step=None if step == 1 else str(step),
        shown=None if shown == 0 else str(shown),
        guess=write_guesses(guesses) or None,
    ), notices


def guesses_of(state: ViewState, lesson: Lesson) -> dict[int, int]:
    """The predictions in the address that the lesson has."""
    found = {int(step): LETTERS.index(letter) for step, letter in GUESS.findall(state.more("guess"))}
    steps = dict(enumerate(lesson.steps, 1))
    return {
        number: choice for number, choice in found.items() if choice < len(getattr(steps.get(number), "choices", ()))
    }


def write_guesses(guesses: dict[int, int]) -> str:
    """As they stand in the address."""
    return "".join(f"{step}{LETTERS[choice]}" for step, choice in sorted(guesses.items()))


def view_of(state: ViewState, step: Step) -> ViewState:
    """The view of a step with what the person changed in it. What belongs together is changed together."""
    view = step.view
    own = {name: getattr(view, name) or None if name == "analysis" else getattr(view, name) for name in VIEW_OF_STEP}
    for names in (("layer", "head"), ("rows", "columns"), ("query", "key"), ("kind",), ("measure",)):
        if any(getattr(state, name) is not None for name in names):
            own |= {name: getattr(state, name) for name in names}
    look = {name: "1" if name == "hide" else getattr(view, name) for name in LOOK_OF_STEP if getattr(view, name)}
    extra = {**look, **{name: value for name, value in state.extra if name not in PARAMETERS}}
    return replace(state, **own, extra=tuple(sorted(extra.items())))


def elsewhere() -> dict[str, None]:
    """What a change of the step takes out of the address: everything the old step's picture was given."""
    return dict.fromkeys((*VIEW_OF_STEP, *LOOK_OF_STEP, "tried"))


def _number(name: str, text: str, low: int, high: int, notices: list[str]) -> int:
    if not re.fullmatch(r"[0-9]{1,3}", text):
        notices.append(f"The address has {name}={shorten(text)!r}, but a number was expected; it is left out.")
        return low
    nearest = min(max(int(text), low), high)
    if nearest != int(text):
        notices.append(f"This lesson has the steps {max(low, 1)} to {high}; {name}={nearest} is shown.")
    return nearest
