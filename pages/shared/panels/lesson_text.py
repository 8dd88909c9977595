"""The sentences of a step: what to look at, the prediction, the answer, and the way on."""

from __future__ import annotations

import streamlit as st

from pages.shared.address import current, select
from pages.shared.lessons import Step
from pages.shared.lessons.place import PARAMETERS, Place, elsewhere, fitted, place_of, write_guesses
from pages.shared.lessons.text import to_markdown
from pages.shared.presenter import ROLES


def lesson_text(place: Place, *, brief: bool) -> None:
    """Draws the left half of a step. brief: once the answer is shown, without the question, to fit a screen."""
    step = place.step
    _ways(place)
    st.subheader(step.title, anchor=False)
    sentences(step.text, step)
    if place.drawn:
        st.text(f"Look at {step.look}")
    if step.ask and not (brief and place.revealed):
        _question(place)
    if step.hides and not place.revealed:
        label = "Show the answer" if step.ask else "Show what it says"
        st.button(label, key="headwater_reveal", type="primary", on_click=reveal, args=(place,))
    elif step.hides:
        _answer(place)


def sentences(text: str, step: Step) -> None:
    """A text of the lesson; each number leads to its entry in the glossary."""
    links = {name: f"glossary#{number.term}" for name, number in step.numbers.items()}
    st.markdown(to_markdown(text, links))


def _question(place: Place) -> None:
    step = place.step
    key = f"headwater_guess_{place.lesson.name}_{place.number}"
    st.session_state[key] = place.guess
    st.radio(
        step.ask,
        range(len(step.choices)),
        index=None,
        format_func=lambda at: step.choices[at],
        key=key,
        disabled=place.revealed,
        on_change=_take_guess,
        args=(place, key),
    )


def _answer(place: Place) -> None:
    step = place.step
    with st.container(border=True, key="headwater_answer", gap="small"):
        if step.ask:
            st.text(verdict(place))
        sentences(step.reveal, step)
        _end(place)


def verdict(place: Place) -> str:
    """The answer, beside what was expected."""
    answer = place.step.choices[place.step.answer]
    if place.guess is None:
        return f"The answer: {answer}."
    if place.guess == place.step.answer:
        return f"As you expected: {answer}."
    return f"You expected: {place.step.choices[place.guess]}. The answer: {answer}."


def _ways(place: Place) -> None:
    """Back and on, always in the same place."""
    last = len(place.lesson.steps)
    st.progress(place.number / last, f"{place.lesson.title} · step {place.number} of {last}")
    with st.container(horizontal=True, key="headwater_ways", gap="small"):
        st.button("Back", key="headwater_back", disabled=place.number == 1, on_click=go, args=(place, -1))
        st.button("Next", key="headwater_next", disabled=place.number == last, on_click=go, args=(place, 1))
        st.button("Present", key="headwater_present", type="tertiary", on_click=present)
        st.button("All lessons", key="headwater_all", type="tertiary", on_click=leave)


def _end(place: Place) -> None:
    """How many predictions came true, and where to go on."""
    asked = sum(bool(step.ask) for step in place.lesson.steps)
    if place.number == len(place.lesson.steps) and asked:
        right, made = place.foreseen
        st.text(f"The end. You made {made} of {asked} predictions, and {right} came true.")
    if place.step.page:
        page = place.step.page
        query = {name: str(value) for name, value in page.get("query", {}).items()}
        st.page_link(f"pages/{page['name']}.py", label=page["label"], query_params=query or None)


def reveal(place: Place) -> None:
    """Shows the answer of this step; a callback."""
    select(shown=str(max(place.shown, place.number)))


def go(place: Place, by: int) -> None:
    """Another step, with its own picture; a callback."""
    number = min(max(place.number + by, 1), len(place.lesson.steps))
    select(**elsewhere(), step=None if number == 1 else str(number))


def leave() -> None:
    """Back to the list; a callback."""
    select(**{**elsewhere(), **dict.fromkeys(PARAMETERS)})


def present() -> None:
    """Fills the screen with the step, for a room; a callback."""
    select(present=ROLES[0], theme="projector")


def move(said: str) -> None:
    """What a key or a clicker asks for: on (first the answer, then the next step), back, or leave; a callback.

    It counts from where the last press led, also where that is not drawn yet."""
    place = place_of(fitted(current())[0])
    if said == "leave" or place is None:
        select(present=None, theme="auto")
    elif said == "forward" and not place.revealed:
        reveal(place)
    else:
        go(place, 1 if said == "forward" else -1)


def follow(place: Place, step: int, shown: int) -> None:
    """Where another window of this browser is; a callback."""
    select(**elsewhere(), step=None if step == 1 else str(step), shown=None if shown == 0 else str(shown))


def _take_guess(place: Place, key: str) -> None:
    choice = st.session_state[key]
    if choice is not None:
        select(guess=write_guesses({**place.guesses, place.number: choice}))
