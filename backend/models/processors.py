"""What prepares pictures and sounds for a model, read from its folder."""

from __future__ import annotations

import inspect

from transformers import (
    MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING,
    MODEL_FOR_SPEECH_SEQ_2_SEQ_MAPPING,
    AutoFeatureExtractor,
    AutoImageProcessor,
    AutoProcessor,
    AutoTokenizer,
    ProcessorMixin,
)
from transformers.models.auto.processing_auto import PROCESSOR_MAPPING

from backend.errors import Refused
from backend.models.sources import Source

UNREADABLE = (OSError, ValueError, TypeError, KeyError, ImportError, AttributeError)
HERE = {"local_files_only": True, "trust_remote_code": False}


def reads_both(config) -> bool:
    """Whether the model of this configuration reads a text that a picture may come with."""
    return type(config) in MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING and not getattr(config, "is_encoder_decoder", False)


def read_processor(source: Source, config):
    """What prepares pictures or sounds; None for models of text."""
    if type(config) in MODEL_FOR_SPEECH_SEQ_2_SEQ_MAPPING:
        kind, what = AutoFeatureExtractor, "sounds"
    elif not hasattr(config, "vision_config") and not hasattr(config, "patch_size"):
        return None
    else:
        kind, what = AutoImageProcessor, "pictures"
    try:
        return read_both(source, config) if reads_both(config) else kind.from_pretrained(source.folder, **HERE)
    except UNREADABLE as error:
        if hasattr(config, "vision_config"):
            return None  # it reads text as well
        raise Refused(
            f"{source.name} has no processor for {what} that can be read ({first_line(error)}). Put the model's "
            "preprocessor_config.json beside its weights."
        ) from None


def read_both(source: Source, config) -> ProcessorMixin:
    """Picture processor and tokenizer in one. Where what prepares videos is not installed, the one without it."""
    try:
        return AutoProcessor.from_pretrained(source.folder, **HERE)
    except UNREADABLE:
        kind = pictures_only(PROCESSOR_MAPPING[type(config)])
    settings, _ = kind.get_processor_dict(source.folder, local_files_only=True)
    parts = {
        "image_processor": AutoImageProcessor.from_pretrained(source.folder, **HERE),
        "tokenizer": AutoTokenizer.from_pretrained(source.folder, **HERE),
        "video_processor": None,
    }
    wanted = inspect.signature(kind.__init__).parameters
    return kind(**{name: value for name, value in {**settings, **parts}.items() if name in wanted})


def pictures_only(kind: type[ProcessorMixin]) -> type[ProcessorMixin]:
    """The processor's class, which also takes None for a part."""

    class PicturesOnly(kind):
        def check_argument_for_proper_class(self, argument_name, argument):
            return None if argument is None else super().check_argument_for_proper_class(argument_name, argument)

    return PicturesOnly


def first_line(error: BaseException) -> str:
    """What an exception says, in one line."""
    lines = str(error).strip().splitlines()
    return lines[0][:300].rstrip(".") if lines else type(error).__name__
