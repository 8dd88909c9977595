"""Which model reads the prompt: a package, the one made by code, an id of the Hugging Face hub, or a folder."""

from __future__ import annotations

from dataclasses import dataclass

import streamlit as st

from backend.models import available
from pages.shared.model_access import any_model

KEY = "headwater_model"
HUB, FOLDER = "Hugging Face id", "Folder"
NO_PACKAGE = (
    "No model is installed as a package. make run installs two; or give a Hugging Face id or a folder with "
    "safetensors weights. Stored analyses need no model, and the one set by hand is always there."
)


@dataclass(frozen=True)
class ModelChoice:
    """What `backend.models.load` is asked for; name is empty until something is typed."""

    name: str
    title: str
    packaged: bool  # loads without asking anybody, so it may be loaded before the run


def model_choice() -> ModelChoice:
    """Draws the choice and returns it."""
    packages = {choice.title: choice for choice in available()}
    if all(choice.built for choice in packages.values()):
        st.text(NO_PACKAGE)
    options = [*packages, HUB, FOLDER] if any_model() else [*packages]
    if st.session_state.get(KEY) not in options:
        st.session_state[KEY] = options[0]
    where = st.segmented_control("Model", options, required=True, key=KEY, persist_state="session")
    if where in packages:
        st.caption(packages[where].sentence)
        return ModelChoice(packages[where].name, where, packaged=True)
    if where == HUB:
        name = st.text_input("Id, as in organisation/model", key="headwater_hub", persist_state="session")
    else:
        name = st.text_input("Folder on the server, with config.json", key="headwater_folder", persist_state="session")
    return ModelChoice(name.strip(), name.strip(), packaged=False)
