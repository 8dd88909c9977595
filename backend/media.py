"""Pictures and sounds as prompts: opened, checked, turned into what the model reads, with a token per patch or frame.

A file comes from anywhere: it is looked at before it is decoded, and whatever is wrong with it is one sentence.
"""

from __future__ import annotations

import base64
import hashlib
import io
import wave
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image, UnidentifiedImageError
from torch import Tensor

from backend.errors import Refused
from backend.models import LoadedModel
from backend.probes import PICTURE, SOUND, picture_shape
from backend.prompt_forms import Prompt
from backend.prompts import EncodedPrompt
from backend.sites import survey
from backend.types import Segment, Token

MOST_PIXELS = 50_000_000
MOST_BYTES = 200_000_000
MOST_SECONDS = 1_800
MOST_KEPT = 1_024  # pixels of a kept picture's longer side
FORMS = {PICTURE: "image", SOUND: "audio"}
WIDTHS = {1: np.uint8, 2: np.dtype("<i2"), 4: np.dtype("<i4")}


def encode_media(model: LoadedModel, prompt: Prompt) -> EncodedPrompt:
    """What a picture or sound model reads of a prompt. Refused where the prompt is of another form."""
    form = FORMS[model.reads]
    if getattr(prompt, form) is None or prompt.text is not None:
        raise Refused(f"{model.name} reads a {model.reads} and nothing else: give Prompt({form}=...) without a text.")
    if model.processor is None:
        raise Refused(
            f"{model.name} came without the processor that prepares a {model.reads}: load it from its folder."
        )
    return encode_picture(model, prompt.image) if model.reads == PICTURE else encode_sound(model, prompt.audio)


def content_of(source: Any, what: str) -> tuple[bytes, str]:
    """The bytes of a file and its name. Refused where there is none."""
    if isinstance(source, bytes | bytearray):
        return bytes(source), what
    try:
        path = Path(source)
        if path.stat().st_size > MOST_BYTES:
            raise Refused(f"The {what} {path.name} has more than {MOST_BYTES // 1_000_000} MB. Give a smaller file.")
        return path.read_bytes(), path.name
    except (OSError, TypeError, ValueError) as error:
        raise Refused(
            f"The {what} cannot be read ({str(error)[:100]}). Give the path of a file, or its bytes."
        ) from None


# -- pictures ---------------------------------------------------------------------------------------------------------


def open_picture(source: Any) -> tuple[Image.Image, str]:
    """The picture in colour, and its name."""
    data, name = (b"", "picture") if isinstance(source, Image.Image) else content_of(source, "picture")
    try:
        picture = source if isinstance(source, Image.Image) else Image.open(io.BytesIO(data))
        width, height = picture.size
        if width * height > MOST_PIXELS:
            raise Refused(
                f"The picture has {width:,} x {height:,} pixels; at most {MOST_PIXELS // 1_000_000} million are read. "
                "Make it smaller."
            )
        if getattr(picture, "n_frames", 1) > 1:
            raise Refused("The picture is animated. Save one of its frames and give that.")
        return picture.convert("RGB"), name
    except (UnidentifiedImageError, OSError, SyntaxError, ValueError, Image.DecompressionBombError) as error:
        raise Refused(f"The picture cannot be read ({str(error)[:100]}). Give a whole PNG or JPEG file.") from None


def encode_picture(model: LoadedModel, source: Any) -> EncodedPrompt:
    """A token per patch, row by row, behind those that stand for no patch ([CLS] and registers)."""
    picture, name = open_picture(source)
    values = model.processor(picture, return_tensors="pt")["pixel_values"]
    _, height, width = picture_shape(model.model)
    if tuple(values.shape[-2:]) != (height, width):
        values = torch.nn.functional.interpolate(values, (height, width), mode="bilinear", antialias=True)
    patch = model.model.config.patch_size
    rows, columns = (side // size for side, size in zip((height, width), pair(patch), strict=True))
    count = survey(model.model).sites[0].length[0]
    before = count - rows * columns
    labels = [("[CLS]" if place == 0 else f"[register {place}]") for place in range(before)]
    labels += patch_labels(rows, columns)
    segments = [Segment("picture", "picture", before, count)]
    facts, media = facts_of_picture(picture, name, seen_picture(model.processor, values, picture))
    inputs = {"pixel_values": values.to(model.device, model.model.dtype)}
    return EncodedPrompt(
        list(range(count)),
        "",
        segments,
        unspoken(labels, before, segments),
        {"image": facts},
        [],
        inputs=inputs,
        media=media,
        patches={"start": before, "grid": [rows, columns]},
    )


def patch_labels(rows: int, columns: int) -> list[str]:
    return [f"patch {row},{column}" for row in range(rows) for column in range(columns)]


def seen_picture(processor, values: Tensor | None, picture: Image.Image) -> Image.Image:
    """The picture as the model sees it, cut and scaled as its processor does, so that patches lie where they belong."""
    mean, deviation = (getattr(processor, name, None) for name in ("image_mean", "image_std"))
    if (
        values is None or values.ndim != 4 or values.shape[:2] != (1, 3)
    ):  # kept as patches of the whole picture (Qwen2-VL)
        share = (MOST_KEPT / max(picture.size)) if max(picture.size) > MOST_KEPT else 1.0
        return picture.resize([max(1, round(side * share)) for side in picture.size])
    colours = values[0].float()
    if getattr(processor, "do_normalize", False) and mean is not None and deviation is not None:
        colours = colours * torch.tensor(deviation)[:, None, None] + torch.tensor(mean)[:, None, None]
    return Image.fromarray((colours.clamp(0, 1) * 255).round().byte().permute(1, 2, 0).numpy())


def facts_of_picture(picture: Image.Image, name: str, seen: Image.Image) -> tuple[dict, dict]:
    """What is always kept of a picture, and what only on request."""
    written = io.BytesIO()
    seen.save(written, "PNG")
    facts = {"name": name, "width": picture.width, "height": picture.height, "sha256": digest(picture.tobytes())}
    return facts, {"type": "image/png", "data": base64.b64encode(written.getvalue()).decode()}


def pair(size: int | tuple[int, int]) -> tuple[int, int]:
    return (size, size) if isinstance(size, int) else tuple(size)


# -- sound ------------------------------------------------------------------------------------------------------------


def open_sound(source: Any, longest: float = MOST_SECONDS, hears: str = "Headwater") -> tuple[np.ndarray, int, str]:
    """One channel as float32 from -1 to 1, its samples per second, and its name.

    Refused above `longest` seconds, which is what `hears` takes at a time; a file is not decoded before that is known.
    """

    def check(samples: int, rate: int) -> None:
        if samples > longest * rate:
            raise Refused(
                f"The sound takes {samples / rate:,.0f} seconds and {hears} hears {longest:,.0f} at a time. "
                "Give a shorter piece."
            )

    if isinstance(source, tuple) and len(source) == 2:  # samples and rate
        samples = np.asarray(source[0], np.float32)
        if samples.ndim != 1 or not len(samples) or not np.isfinite(samples).all():
            raise Refused("The sound holds no samples, or numbers that are none. Give one channel of finite numbers.")
        check(len(samples), int(source[1]))
        return samples, int(source[1]), "sound"
    data, name = content_of(source, "sound")
    samples, rate = (read_flac if data.startswith(b"fLaC") else read_wav)(data, check)
    return samples.mean(1), rate, name


def read_wav(data: bytes, check: Callable[[int, int], None]) -> tuple[np.ndarray, int]:
    """[N, channels] float32 of a WAV file (PCM), and its rate."""
    try:
        with wave.open(io.BytesIO(data)) as file:
            width, channels, rate, count = (
                file.getsampwidth(),
                file.getnchannels(),
                file.getframerate(),
                file.getnframes(),
            )
            check(count, rate)
            frames, promised = file.readframes(count), count * width * channels
    except (wave.Error, EOFError, ValueError) as error:
        raise Refused(f"The sound cannot be read ({str(error)[:100]}). Give a whole WAV (PCM) or FLAC file.") from None
    if not frames or len(frames) != promised:
        raise Refused(
            f"The sound cannot be read: {len(frames):,} of {promised:,} bytes are there. Give the whole file."
        )
    if width not in WIDTHS:
        raise Refused(f"The sound has {8 * width} bits per sample. Save it as FLAC, or as WAV with 8, 16 or 32 bits.")
    samples = np.frombuffer(frames, WIDTHS[width]).reshape(-1, channels).astype(np.float32)
    return (samples - 128) / 128 if width == 1 else samples / 2.0 ** (8 * width - 1), rate


def read_flac(data: bytes, check: Callable[[int, int], None]) -> tuple[np.ndarray, int]:
    """The same of a FLAC file."""
    try:
        import soundfile
    except (ImportError, OSError):  # where its wheel brings no libsndfile, and the system has none
        raise Refused("FLAC files are decoded by the package soundfile, which is not here. Give a WAV file.") from None
    try:
        with soundfile.SoundFile(io.BytesIO(data)) as file:
            check(file.frames, file.samplerate)
            count, rate = file.frames, file.samplerate
            samples = file.read(dtype="float32", always_2d=True)
    except soundfile.SoundFileError as error:
        raise Refused(f"The sound cannot be read ({str(error)[:100]}). Give a whole FLAC or WAV file.") from None
    if not len(samples) or len(samples) != count:
        raise Refused(
            f"The sound cannot be read: {len(samples):,} of {count:,} samples are there. Give the whole file."
        )
    return samples, rate


def resampled(samples: np.ndarray, rate: int, wanted: int) -> np.ndarray:
    """The same sound with another number of samples per second, by its spectrum."""
    if rate == wanted:
        return samples
    count = max(1, round(len(samples) * wanted / rate))
    spectrum = np.fft.rfft(samples)
    kept = np.zeros(count // 2 + 1, spectrum.dtype)
    shared = min(len(kept), len(spectrum))
    kept[:shared] = spectrum[:shared]
    return (np.fft.irfft(kept, count) * (count / len(samples))).astype(np.float32)


def encode_sound(model: LoadedModel, source: Any) -> EncodedPrompt:
    """A token per frame of the encoder, named by its time. The model pads a short sound with silence."""
    processor = getattr(model.processor, "feature_extractor", model.processor)
    wanted, frames = processor.sampling_rate, model.model.config.max_source_positions
    step = 2 * processor.hop_length / wanted  # two steps of the spectrum make one frame
    samples, rate, name = open_sound(source, frames * step, model.name)
    seconds = len(samples) / rate
    values = processor(resampled(samples, rate, wanted), sampling_rate=wanted, return_tensors="pt")["input_features"]
    heard = min(frames, max(1, int(np.ceil(seconds / step))))
    segments = [Segment("sound", "sound", 0, heard)]
    if heard < frames:
        segments.append(Segment("silence behind it", "silence", heard, frames))
    labels = [f"{place * step:.2f} s" for place in range(frames)]
    facts = {"name": name, "seconds": round(seconds, 3), "rate": rate, "sha256": digest(samples.tobytes())}
    media = {"type": "audio/wav", "step": step, "data": base64.b64encode(as_wav(samples, rate)).decode()}
    inputs = {"input_features": values.to(model.device, model.model.dtype)}
    tokens = unspoken(labels, 0, segments)
    return EncodedPrompt(list(range(frames)), "", segments, tokens, {"audio": facts}, [], inputs=inputs, media=media)


def as_wav(samples: np.ndarray, rate: int) -> bytes:
    """16-bit PCM."""
    written = io.BytesIO()
    with wave.open(written, "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(rate)
        file.writeframes((samples.clip(-1, 1) * 32767).astype("<i2").tobytes())
    return written.getvalue()


# -- both -------------------------------------------------------------------------------------------------------------


def unspoken(labels: list[str], special: int, segments: list[Segment]) -> list[Token]:
    """Tokens that stand for no text; the first `special` ones stand for no part of the picture either."""
    return [
        Token(
            position=place,
            token_id=place,
            text="",
            label=label,
            raw=label,
            bytes=b"",
            start=-1,
            end=-1,
            is_special=place < special,
            segment=next((k for k, s in enumerate(segments) if s.start <= place < s.end), -1),
            word=-1,
        )
        for place, label in enumerate(labels)
    ]


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
