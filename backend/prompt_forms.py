"""The forms of a prompt, and each form as one text with named segments.

The wording of the documents and few-shot forms is part of the contract of an analysis: a change gives other tokens.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from jinja2 import TemplateError

from backend.errors import Refused

FORMS = ("text", "chat", "documents", "examples", "pair", "image", "audio")
INSTRUCTION = "Answer the question from the documents below."
ROLES = ("system", "user", "assistant", "tool")


@dataclass(frozen=True)
class Prompt:
    """Exactly one of text, chat, documents, examples, pair, image, audio is the main form; a picture may have text."""

    text: str | None = None
    chat: list[dict] | None = None  # rendered by the tokenizer's template, one BOS
    documents: list[str] | None = None  # with question; each document, the instruction and the question are segments
    examples: list[tuple[str, str]] | None = None  # few-shot, with question
    question: str | None = None
    pair: tuple[str, str] | None = None  # sentence pair for encoders
    image: Any = None
    audio: Any = None
    target: str | None = None  # decoder's text of an encoder-decoder; None = written by the model, greedily
    parse_special: bool = False  # text such as "<s>" is text unless asked otherwise


@dataclass
class Draft:
    """A text under construction, with its segments as spans of characters."""

    text: str = ""
    segments: list[tuple[str, str, int, int]] = field(default_factory=list)  # name, kind, start, end

    def add(self, text: str, name: str = "", kind: str = "") -> None:
        if kind:
            self.segments.append((name, kind, len(self.text), len(self.text) + len(text)))
        self.text += text


def main_form(prompt: Prompt, name: str = "This model", *, picture: bool = False) -> str:
    """The one form that is set. picture: the model called `name` reads text that a picture may come with."""
    given = [form for form in FORMS if getattr(prompt, form) is not None]
    if picture and given == ["image"]:
        raise Refused(f"{name} reads a text with its picture: give both, as in Prompt(text=..., image=...).")
    if picture:
        given = [form for form in given if form != "image"]
    media = [form for form in given if form in ("image", "audio")]
    given = media or given  # a picture beside a text, where only text is read
    if len(given) != 1:
        raise Refused(f"A prompt has exactly one of {', '.join(FORMS[:5])}; got {', '.join(given) or 'none of them'}.")
    if given[0] in ("image", "audio"):
        what = "picture" if given[0] == "image" else "sound"
        raise Refused(f"{name} reads text; a {what} cannot be given to it here. Give text, or take another model.")
    needs_question = given[0] in ("documents", "examples")
    if needs_question != (prompt.question is not None):
        raise Refused(f"{given[0]} {'needs' if needs_question else 'takes no'} question.")
    return given[0]


def strings_of(value) -> list[str]:
    """All texts inside a prompt's field."""
    if isinstance(value, str):
        return [value]
    if isinstance(value, dict):
        return [text for part in value.values() for text in strings_of(part)]
    if isinstance(value, list | tuple):
        return [text for part in value for text in strings_of(part)]
    return []


def spoken(chat) -> list[str]:
    """What the turns of a chat say; Refused where it is no chat."""
    turns = chat if isinstance(chat, list) else [chat]
    for turn in turns:
        if not isinstance(turn, dict) or turn.get("role") not in ROLES or not isinstance(turn.get("content"), str):
            raise Refused(f"A chat is a list of {{'role': one of {', '.join(ROLES)}, 'content': text}}; got {turn!r}.")
    return [turn["content"] for turn in turns]


def check_texts(prompt: Prompt) -> None:
    """Refuse empty parts and characters that no tokenizer can read."""
    for name in ("text", "chat", "documents", "examples", "question", "pair", "target"):
        value = getattr(prompt, name)
        if value is None:
            continue
        texts = spoken(value) if name == "chat" else strings_of(value)
        if not texts or not any(text.strip() for text in texts):
            raise Refused(f"The prompt is empty: its {name} holds no visible character. Type some text.")
        if name != "text" and name != "chat" and not all(text.strip() for text in texts):
            raise Refused(f"A part of the prompt's {name} is empty. Fill it or leave it out.")
        for text in texts:
            if "\0" in text:
                raise Refused(f"The prompt's {name} holds a NUL character (U+0000). Remove it.")
            if any("\ud800" <= character <= "\udfff" for character in text):
                raise Refused(
                    f"The prompt's {name} holds half of a character (a lone surrogate). Paste the text again."
                )


# --- the forms as text ----------------------------------------------------------------------------------------------


def draft_text(prompt: Prompt, tokenizer) -> Draft:
    draft = Draft()
    draft.add(prompt.text, "text", "text")
    return draft


def draft_documents(prompt: Prompt, tokenizer) -> Draft:
    """Instruction, the documents under their numbers, the question."""
    draft = Draft()
    draft.add(INSTRUCTION, "instruction", "instruction")
    for number, document in enumerate(prompt.documents, 1):
        draft.add(f"\n\nDocument {number}: ")
        draft.add(document, f"document {number}", "document")
    draft.add("\n\nQuestion: ")
    draft.add(prompt.question, "question", "question")
    draft.add("\nAnswer:")
    return draft


def draft_examples(prompt: Prompt, tokenizer) -> Draft:
    """Pairs of input and output, then the question in the place of an input."""
    draft = Draft()
    for number, (given, wanted) in enumerate(prompt.examples, 1):
        draft.add(f"Input: {given}\nOutput: {wanted}", f"example {number}", "example")
        draft.add("\n\n")
    draft.add("Input: ")
    draft.add(prompt.question, "question", "question")
    draft.add("\nOutput:")
    return draft


def draft_chat(prompt: Prompt, tokenizer) -> Draft:
    """The conversation as the tokenizer's template writes it, ready for the assistant where a user spoke last."""
    if not getattr(tokenizer, "chat_template", None):
        raise Refused("This model's tokenizer has no chat template. Give the prompt as plain text.")
    try:
        text = tokenizer.apply_chat_template(
            prompt.chat, tokenize=False, add_generation_prompt=prompt.chat[-1]["role"] != "assistant"
        )
    except (TemplateError, ValueError, TypeError) as error:
        raise Refused(f"This model's chat template does not take this conversation: {error}.") from error
    draft, at = Draft(text), 0
    counts = {role: sum(turn["role"] == role for turn in prompt.chat) for role in ROLES}
    seen = dict.fromkeys(ROLES, 0)
    for turn in prompt.chat:
        role, content = turn["role"], turn["content"]
        seen[role] += 1
        found = text.find(content, at)
        if found < 0:  # templates may strip what was typed
            content = content.strip()
            found = text.find(content, at)
        if found < 0 or not content:
            continue
        name = role if counts[role] == 1 else f"{role} {seen[role]}"
        draft.segments.append((name, role, found, found + len(content)))
        at = found + len(content)
    return draft


DRAFTS = {"text": draft_text, "chat": draft_chat, "documents": draft_documents, "examples": draft_examples}
