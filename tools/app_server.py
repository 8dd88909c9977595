"""The app in a process of its own, as a person starts it, for browser tests and benchmarks."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

PROJECT = Path(__file__).resolve().parent.parent
START_SECONDS = 60

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
CHROMIUM_FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--force-device-scale-factor=1",
]


def free_port() -> int:
    """A port nobody listens on at this moment."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@contextmanager
def serve(
    data: Path,
    *,
    script: Path = PROJECT / "app.py",
    prefix: str = "",
    log: Path | None = None,
    options: tuple[str, ...] = (),
) -> Iterator[str]:
    """Streamlit with `script` on a free local port; yields the address without a slash at the end.

    options: more of Streamlit's. `data` becomes HEADWATER_DATA. The server's words go to `log` (data/server.log by
    default). RuntimeError with the end of the log if it is not ready within a minute.
    """
    port, log = free_port(), log or data / "server.log"
    where = ["--server.address", "127.0.0.1", "--server.port", str(port), "--server.baseUrlPath", prefix]
    environment = {**os.environ, "HEADWATER_DATA": str(data), "HF_HUB_OFFLINE": "1"}
    environment.pop("TRITON_INTERPRET", None)
    url = f"http://127.0.0.1:{port}/{prefix}".rstrip("/")
    with log.open("w") as words:
        process = subprocess.Popen(
            [sys.executable, "-m", "streamlit", "run", str(script), *where, *options],
            cwd=PROJECT,
            env=environment,
            stdout=words,
            stderr=subprocess.STDOUT,
        )
        try:
            wait_until_ready(url, process, log)
            yield url
        finally:
            process.terminate()
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def wait_until_ready(url: str, process: subprocess.Popen, log: Path) -> None:
    """Returns once the server answers its health check."""
    end = time.monotonic() + START_SECONDS
    while time.monotonic() < end and process.poll() is None:
        try:
            with urllib.request.urlopen(f"{url}/_stcore/health", timeout=2):
                return
        except (urllib.error.URLError, ConnectionError, TimeoutError):
            time.sleep(0.1)
    raise RuntimeError(f"The app did not start within {START_SECONDS} s. Its log ends: {log.read_text()[-2000:]}")
