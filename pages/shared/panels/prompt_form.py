"""What is read: a text, documents with a question, a chat, worked examples, a pair, a target, a picture, a sound."""

from __future__ import annotations

import re

import streamlit as st

from backend.errors import HeadwaterError
from backend.media import open_picture, open_sound
from backend.prompts import Prompt
from pages.shared.examples import EXAMPLES, Example
from pages.shared.typing_pause import typing_pause

FORM = "headwater_form"
AREA = "headwater_prompt_area"  # container of all text areas of the form
PICTURES = ["png", "jpg", "jpeg", "webp", "bmp", "gif"]  # endings of files
SOUNDS = ["wav", "flac"]
KEEP = "headwater_keep_media"  # whether the picture or sound is stored with the analysis
ROLE = re.compile(r"(system|user|assistant):\s*", re.IGNORECASE)
ARROW = "=>"


def prompt_form() -> tuple[Prompt | None, str | None]:
    """Draws the form; the prompt, or None with the sentence that says what is missing."""
    st.session_state.setdefault(FORM, "Text")
    form = st.segmented_control("Prompt", list(FORMS), required=True, key=FORM, persist_state="session")
    with st.container(key=AREA):
        prompt, missing = FORMS[form]()
    with st.container(horizontal=True, gap="small", vertical_alignment="center"):
        st.text("Try")  # the form "Examples" is another thing: examples for the model
        for number, example in enumerate(EXAMPLES):
            st.button(example.title, key=f"headwater_example_{number}", on_click=use, args=(example,), type="tertiary")
        typing_pause(AREA)
    return prompt, missing


def use(example: Example) -> None:
    """Puts an example into the form; a callback."""
    st.session_state[FORM] = "Documents" if example.documents else "Text"
    if example.documents:
        st.session_state["headwater_documents"] = "\n\n".join(example.documents)
        st.session_state["headwater_question"] = example.question
    else:
        st.session_state["headwater_text"] = example.text


def paragraphs(text: str) -> list[str]:
    """The paragraphs of a text: what stands between empty lines, as typed."""
    return [part.strip("\n") for part in re.split(r"\n[ \t]*\n", text) if part.strip()]


def turns(text: str) -> list[dict[str, str]]:
    """A chat from paragraphs that begin with system:, user: or assistant:; one without belongs to the turn before."""
    chat: list[dict[str, str]] = []
    for part in paragraphs(text):
        match = ROLE.match(part)
        if match:
            chat.append({"role": match[1].lower(), "content": part[match.end() :]})
        elif chat:
            chat[-1]["content"] += "\n\n" + part
        else:
            chat.append({"role": "user", "content": part})
    return chat


def shots(text: str) -> list[tuple[str, str]]:
    """Worked examples from lines `input => output`."""
    pairs = [line.rsplit(ARROW, 1) for line in text.splitlines() if ARROW in line]
    return [(left.strip(), right.strip()) for left, right in pairs]


def _text() -> tuple[Prompt | None, str | None]:
    text = _area("Text", "headwater_text", 160)
    return (Prompt(text=text), None) if text.strip() else (None, "Type or paste a text, or press an example.")


def _documents() -> tuple[Prompt | None, str | None]:
    documents = paragraphs(_area("Documents, an empty line between two", "headwater_documents", 150))
    question = _line("Question", "headwater_question")
    if not documents or not question.strip():
        return None, "Give at least one document and a question."
    return Prompt(documents=documents, question=question), None


def _chat() -> tuple[Prompt | None, str | None]:
    text = _area("Turns: paragraphs that begin with system:, user: or assistant:", "headwater_chat", 190)
    chat = turns(text)
    return (Prompt(chat=chat), None) if chat else (None, "Give at least one turn, as in  user: Hello.")


def _examples() -> tuple[Prompt | None, str | None]:
    examples = shots(_area("One example per line:  input => output", "headwater_shots", 150))
    question = _line("New input", "headwater_new_input")
    if not examples or not question.strip():
        return None, "Give at least one line  input => output  and a new input."
    return Prompt(examples=examples, question=question), None


def _pair() -> tuple[Prompt | None, str | None]:
    first, second = _line("First sentence", "headwater_first"), _line("Second sentence", "headwater_second")
    if not first.strip() or not second.strip():
        return None, "Give both sentences. Pairs are for encoders such as MiniLM."
    return Prompt(pair=(first, second)), None


def _target() -> tuple[Prompt | None, str | None]:
    source = _area("Source", "headwater_source", 100)
    target = _area("Target (left empty, the model writes it)", "headwater_target", 70)
    if not source.strip():
        return None, "Type a source text. For models with an encoder and a decoder, such as T5, BART or Marian."
    return Prompt(text=source, target=target if target.strip() else None), None


def _media() -> tuple[Prompt | None, str | None]:
    label = "Picture (PNG, JPEG, WebP) or sound (WAV, FLAC)"
    file = st.file_uploader(label, type=[*PICTURES, *SOUNDS], key="headwater_media")
    text = _line("Text with the picture (for LLaVA, PaliGemma, Gemma 3, Qwen2-VL)", "headwater_media_text")
    target = _line("Target of a sound (left empty, the model writes it)", "headwater_media_target")
    st.checkbox("Keep the file in the analysis, for everybody who opens it", key=KEEP)
    if file is None:
        return None, "Choose a file. Pictures are read by ViT, DINOv2, CLIP or SigLIP, sounds by Whisper."
    content, sound = file.getvalue(), file.name.lower().endswith(tuple(f".{ending}" for ending in SOUNDS))
    trouble = _trouble(content, sound)
    if trouble is not None:
        return None, trouble
    if sound:
        return Prompt(audio=content, target=target if target.strip() else None), None
    return Prompt(image=content, text=text if text.strip() else None), None


@st.cache_data(max_entries=8, show_spinner=False)
def _trouble(content: bytes, sound: bool) -> str | None:
    """What is wrong with a file, whatever model reads it; None where it can be opened."""
    try:
        (open_sound if sound else open_picture)(content)
    except HeadwaterError as error:
        return str(error)
    return None


FORMS = {
    "Text": _text,
    "Documents": _documents,
    "Chat": _chat,
    "Examples": _examples,
    "Pair": _pair,
    "Target": _target,
    "Media": _media,
}


def _area(label: str, key: str, height: int) -> str:
    return st.text_area(label, key=key, height=height, persist_state="session") or ""


def _line(label: str, key: str) -> str:
    return st.text_input(label, key=key, persist_state="session") or ""
