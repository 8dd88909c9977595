"""Read a model from its folder, check that the folder gave all of it, and prove its maps."""

from __future__ import annotations

import torch
from huggingface_hub.errors import StrictDataclassError
from safetensors import SafetensorError
from transformers import (
    MODEL_FOR_CAUSAL_LM_MAPPING,
    MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING,
    MODEL_FOR_SPEECH_SEQ_2_SEQ_MAPPING,
    MODEL_MAPPING,
    AutoConfig,
    AutoModel,
    AutoModelForCausalLM,
    AutoModelForImageTextToText,
    AutoModelForMaskedLM,
    AutoModelForSeq2SeqLM,
    AutoModelForSpeechSeq2Seq,
    AutoTokenizer,
)
from transformers.utils import logging

from backend.errors import Refused
from backend.families import family_of
from backend.models.loaded import LoadedModel
from backend.models.processors import UNREADABLE, first_line, read_processor, reads_both
from backend.models.quantised import check_quantised
from backend.models.sources import Source, locate

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}
UNUSED_PARTS = ("pooler",)  # a part without weights that nothing shown depends on
SPREAD = "spread"  # over all GPUs, then the host's memory, then the disk


def read_model(name: str, revision: str | None, token: str | None, dtype: str, device: str) -> LoadedModel:
    """A model from wherever its name points to. Refused, with a reason, where it cannot be read or captured."""
    logging.disable_progress_bar()
    place = choose_device("auto" if device == SPREAD else device)
    source = locate(name, revision, token)
    kind = choose_dtype(dtype, place, source)
    if source.build is not None:
        model, tokenizer = source.build()
        parts = {"model": model.to(place, kind).eval().requires_grad_(False), "tokenizer": tokenizer}
    else:
        config = read_config(source)
        check_quantised(config, source.name)
        processor = read_processor(source, config)
        parts = {
            "model": read_weights(source, config, kind, SPREAD if device == SPREAD else place),
            "tokenizer": getattr(processor, "tokenizer", None) or read_tokenizer(source, config),
            "processor": processor,
        }
    loaded = LoadedModel(**parts, name=source.name, revision=source.revision, private=True)
    loaded.checks  # noqa: B018  refuses now rather than in the middle of a run
    return loaded


def choose_device(device: str) -> torch.device:
    """ "auto": a GPU where there is one."""
    if device == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        place = torch.device(device)
        torch.empty(0, device=place)
    except (RuntimeError, AssertionError) as error:
        raise Refused(f"The device {device!r} is not there: {error}. Give auto, cpu, cuda or {SPREAD}.") from None
    return place


def choose_dtype(dtype: str, device: torch.device, source: Source) -> torch.dtype | str:
    """ "auto": float32 on the CPU and for bundled models, else what the file holds."""
    if dtype == "auto":
        return torch.float32 if device.type == "cpu" or source.bundled else "auto"
    if dtype not in DTYPES:
        raise Refused(f"dtype: expected auto, {', '.join(DTYPES)}, got {dtype!r}.")
    return DTYPES[dtype]


def read_config(source: Source):
    """The configuration, where the model is one that can be captured."""
    try:
        config = AutoConfig.from_pretrained(source.folder, local_files_only=True, trust_remote_code=False)
    except (OSError, ValueError, KeyError, TypeError, AttributeError, StrictDataclassError) as error:
        raise Refused(
            f"{source.name}: its config.json names no architecture that transformers knows by itself "
            f"({first_line(error)}). Code that comes with a model is never run."
        ) from None
    model_type = config.get_text_config().model_type
    family = family_of(model_type)
    if family is not None and family.refusal:
        raise Refused(f"{source.name} is of the type {model_type}, which is not offered: {family.refusal}.")
    for part in (config, *(getattr(config, name, None) for name in getattr(config, "sub_configs", None) or ())):
        if hasattr(part, "_attn_implementation_internal"):
            part._attn_implementation_internal = None  # what the file asks for may not be here; capture has its own
    return config


def choose_class(config):
    """With its language head where the weights have one."""
    architecture = (config.architectures or [""])[0]
    if architecture.endswith(("ForCausalLM", "LMHeadModel")):
        return AutoModelForCausalLM
    if architecture.endswith("ForMaskedLM"):
        return AutoModelForMaskedLM
    if type(config) in MODEL_FOR_SPEECH_SEQ_2_SEQ_MAPPING:
        return AutoModelForSpeechSeq2Seq
    if config.is_encoder_decoder and type(config) in MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING:
        return AutoModelForSeq2SeqLM
    if not architecture and type(config) in MODEL_FOR_CAUSAL_LM_MAPPING:
        return AutoModelForCausalLM
    if reads_both(config) and not architecture.endswith("Model"):
        return AutoModelForImageTextToText
    if type(config) not in MODEL_MAPPING:
        raise Refused(f"transformers has no model of the type {config.model_type}. Take one of docs/models.md.")
    return AutoModel


def read_weights(source: Source, config, dtype: torch.dtype | str, device: torch.device | str):
    """The model, evaluating and without gradients; Refused where weights are missing, unlike or not finite."""
    spread = {"device_map": "auto"} if device == SPREAD else {}
    try:
        model, report = choose_class(config).from_pretrained(
            source.folder,
            config=config,
            dtype=dtype,
            local_files_only=True,
            trust_remote_code=False,
            use_safetensors=True,
            output_loading_info=True,
            **spread,
        )
    except (OSError, ValueError, RuntimeError, ImportError, SafetensorError) as error:
        raise Refused(f"{source.name}: its weights cannot be read ({first_line(error)}).") from error
    missing = [key for key in report["missing_keys"] if not any(part in key.split(".") for part in UNUSED_PARTS)]
    unlike = [str(key[0]) for key in report["mismatched_keys"]]
    if missing or unlike:
        raise Refused(
            f"{source.name}: its weights do not match its config.json: {len(missing)} tensors are missing and "
            f"{len(unlike)} have another shape, such as {(missing + unlike)[0]}. Give the folder it was saved to."
        )
    here = ((key, p) for key, p in model.named_parameters() if p.is_floating_point() and not p.is_meta)
    broken = next((key for key, p in here if not bool(p.sum(dtype=torch.float32).isfinite())), None)
    if broken is not None:
        raise Refused(f"{source.name}: the tensor {broken} holds NaN or infinity. Load undamaged weights.")
    # A quantised or spread model lies where it was put already.
    moved = model if spread or getattr(model, "hf_quantizer", None) else model.to(device)
    return moved.eval().requires_grad_(False)


def read_tokenizer(source: Source, config):
    """The model's tokenizer; None for models that read pictures alone."""
    if hasattr(config, "patch_size") and not hasattr(config, "vocab_size"):
        return None
    try:
        return AutoTokenizer.from_pretrained(source.folder, local_files_only=True, trust_remote_code=False)
    except UNREADABLE as error:
        raise Refused(
            f"{source.name} has no tokenizer that can be read ({first_line(error)}). Put the model's tokenizer files "
            "(tokenizer.json, tokenizer_config.json) beside its weights."
        ) from None
