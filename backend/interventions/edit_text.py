"""EditText: other words in the prompt."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from backend.errors import Refused
from backend.interventions.intervention import PromptEdit


@dataclass(frozen=True, kw_only=True)
class EditText(PromptEdit):
    """`old` becomes `new` wherever it stands in the prompt: text, turns, documents, examples, question, pair."""

    NAME: ClassVar[str] = "edit_text"

    old: str
    new: str

    def __post_init__(self) -> None:
        if not isinstance(self.old, str) or not self.old:
            raise self.refuse("old", "the words to replace")
        if not isinstance(self.new, str):
            raise self.refuse("new", "the words to put in their place; '' removes them")

    def edited(self, value):
        """A text, or a list, tuple or dict of texts, with the words replaced."""
        if isinstance(value, str):
            return value.replace(self.old, self.new)
        if isinstance(value, list | tuple):
            return type(value)(self.edited(part) for part in value)
        if isinstance(value, dict):  # a turn of a chat: its role is no text of the person
            return {key: part if key == "role" else self.edited(part) for key, part in value.items()}
        return value

    def not_found(self) -> Refused:
        return Refused(f"Intervention edit_text: {self.old!r} does not stand in the prompt. Check its spelling.")

    def sentence(self) -> str:
        return f"In the prompt, {self.old!r} is replaced by {self.new!r}."


INTERVENTION = EditText
