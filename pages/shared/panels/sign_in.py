"""Who is signed in, and the way in and out, where the server has accounts (Streamlit's OpenID Connect)."""

from __future__ import annotations

import streamlit as st

from pages.shared.opened import signs_in


def sign_in() -> None:
    """Draws it; nothing where there are no accounts."""
    if not signs_in():
        return
    facts = st.user.to_dict()
    with st.container(horizontal=True, vertical_alignment="center", key="headwater_sign_in"):
        if facts.get("is_logged_in"):
            st.text(f"Signed in as {facts.get('email') or facts.get('name') or 'somebody without a name'}.")
            st.button("Sign out", key="headwater_sign_out", on_click=st.logout)
        else:
            st.text("Not signed in: what you run belongs to this browser.")
            st.button("Sign in", key="headwater_sign_in_now", on_click=st.login)
