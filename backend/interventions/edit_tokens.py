"""EditTokens: tokens taken out of the prompt or put in, without tokenising it anew (drop BOS, swap the first one)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from backend.errors import Refused
from backend.interventions.intervention import PromptEdit, listed, whole


@dataclass(frozen=True, kw_only=True)
class EditTokens(PromptEdit):
    """The tokens from `start` to before `stop` are replaced by `token_ids` (none: they are dropped)."""

    NAME: ClassVar[str] = "edit_tokens"

    start: int
    stop: int
    token_ids: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if not whole((self.start, self.stop)) or self.stop < self.start:
            raise Refused(
                f"Intervention edit_tokens: expected positions 0 <= start <= stop, got {self.start!r} and "
                f"{self.stop!r}."
            )
        if not whole(self.token_ids):
            raise self.refuse("token_ids", "token ids, whole numbers from 0")
        if self.start == self.stop and not self.token_ids:
            raise Refused("Intervention edit_tokens: nothing is taken out and nothing put in. Give stop or token_ids.")

    def edited(self, token_ids: list[int]) -> list[int]:
        """The changed token ids; Refused where the positions do not exist or nothing is left."""
        if self.stop > len(token_ids):
            raise Refused(
                f"Intervention edit_tokens: the prompt has {len(token_ids)} tokens, positions up to "
                f"{self.stop} were named."
            )
        changed = [*token_ids[: self.start], *self.token_ids, *token_ids[self.stop :]]
        if not changed:
            raise Refused("Intervention edit_tokens: no token would be left. Keep at least one.")
        return changed

    def moved(self, position: int) -> int:
        """Where an edge between tokens (a segment's start or end) lies after the change."""
        if position <= self.start:
            return position
        if position >= self.stop:
            return position + len(self.token_ids) - (self.stop - self.start)
        return min(position, self.start + len(self.token_ids))

    def sentence(self) -> str:
        taken = (
            f"tokens {self.start} to {self.stop - 1} are" if self.stop - self.start > 1 else f"token {self.start} is"
        )
        ids = listed([str(token) for token in self.token_ids]) if self.token_ids else ""
        if not ids:
            return f"In the prompt, {taken} left out."
        if self.start == self.stop:
            return f"Before token {self.start} of the prompt, token ids {ids} are put in."
        return f"In the prompt, {taken} replaced by token ids {ids}."


INTERVENTION = EditTokens
