"""LoadedModel: a model with its tokenizer, and ModelCard: what can be said of it before anything runs."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor
from transformers import PreTrainedModel

from backend.errors import Refused
from backend.families import family_of
from backend.models.check import self_check
from backend.probes import PICTURE, TEXT, input_device, is_encoder_decoder, reads, sees
from backend.sites import survey
from backend.types import LayerInfo


@dataclass(frozen=True)
class ModelCard:
    """A model in numbers and words."""

    name: str
    revision: str | None
    model_type: str
    family: str | None  # the family in docs/models.md that proves its maps; None = checked, not in the list
    architecture: str
    parameters: int
    vocabulary: int
    hidden_size: int
    max_positions: int | None
    dtype: str
    device: str
    causal: bool
    layers: list[LayerInfo]
    checks: dict

    @property
    def heads(self) -> int:
        """Heads of softmax attention, over all layers."""
        return sum(layer.heads for layer in self.layers)


class LoadedModel:
    """A model in memory, ready to be captured. `load` makes one; `wrap` takes a transformers model as it is."""

    def __init__(
        self, model, tokenizer, name: str, revision: str | None = None, *, private: bool = False, processor=None
    ) -> None:
        self.model = model
        self.tokenizer = tokenizer
        self.processor = processor  # prepares pictures and sounds
        self.name = name
        self.revision = revision
        self._private = private  # nobody else holds the weights, so they cannot change
        self._hash: str | None = None

    @classmethod
    def wrap(cls, model, tokenizer=None, name: str = "in-memory", *, processor=None) -> LoadedModel:
        """Any transformers model. Without a tokenizer it works for prompts given as token ids.

        The model is left as it is; a capture switches it to evaluation and puts it back. Refused where it has no
        softmax attention that can be read, or where its maps fail the self-check.
        """
        loaded = cls(model, tokenizer or getattr(processor, "tokenizer", None), name, processor=processor)
        loaded.checks  # noqa: B018  refuses now rather than in the middle of a run
        return loaded

    @cached_property
    def checks(self) -> dict:
        """The self-check's results; Refused where it fails. Of two towers (CLIP) those of the picture's."""
        if self.towers:
            return [self.towers[what].checks for what in (TEXT, PICTURE)][-1]
        return self_check(self.model)

    @cached_property
    def towers(self) -> dict[str, LoadedModel]:
        """Models that read a picture or a text, each with a tower of its own: what is read -> that tower."""
        parts = {PICTURE: getattr(self.model, "vision_model", None), TEXT: getattr(self.model, "text_model", None)}
        if not all(isinstance(part, PreTrainedModel) for part in parts.values()):
            return {}
        return {
            what: LoadedModel(
                part, self.tokenizer, self.name, self.revision, private=self._private, processor=self.processor
            )
            for what, part in parts.items()
        }

    def tower_for(self, prompt) -> LoadedModel:
        """What reads this prompt: the model itself, or of two towers the one for its form."""
        return self.towers[PICTURE if getattr(prompt, "image", None) is not None else TEXT] if self.towers else self

    @property
    def weights_hash(self) -> str:
        """sha256 over names, types, shapes and contents of all weights, 16 hexadecimal digits.

        Of a wrapped model it is computed anew each time: its owner may have changed a weight.
        """
        if self._hash is None or not self._private:
            self._hash = hash_weights(self.model)
        return self._hash

    @cached_property
    def tokenizer_hash(self) -> str:
        """sha256 over the tokenizer's vocabulary and rules, 16 hexadecimal digits; "" without a tokenizer."""
        if self.tokenizer is None:
            return ""
        backend = getattr(self.tokenizer, "backend_tokenizer", None)
        content = backend.to_str() if backend is not None else json.dumps(self.tokenizer.get_vocab(), sort_keys=True)
        template = getattr(self.tokenizer, "chat_template", None) or ""
        return hashlib.sha256(f"{content}\0{json.dumps(template)}".encode()).hexdigest()[:16]

    @property
    def config(self):
        """The configuration of the text part."""
        return self.model.config.get_text_config()

    @property
    def dtype(self) -> str:
        """Such as "float32"."""
        return str(self.model.dtype).removeprefix("torch.")

    @property
    def device(self) -> torch.device:
        """Where inputs go."""
        return input_device(self.towers[TEXT].model if self.towers else self.model)

    @property
    def eos_token_id(self) -> int | None:
        """The token that ends a text (the first where there are several), or None."""
        ids = getattr(self.model.generation_config, "eos_token_id", None) if self.predicts_next else None
        ids = self.config.eos_token_id if ids is None else ids
        return ids[0] if isinstance(ids, list | tuple) else ids

    @property
    def max_positions(self) -> int | None:
        """The longest sequence the model was made for, in tokens; None where it names none."""
        config, family = self.config, family_of(self.config.model_type)
        readable = None if family is None or family.most_tokens is None else family.most_tokens(config)
        if readable is not None:
            return readable
        positions = getattr(config, "max_position_embeddings", getattr(config, "max_target_positions", None))
        if positions is None or positions < 1:
            return None
        if config.model_type in ("roberta", "xlm-roberta", "camembert", "xlm-roberta-xl", "data2vec-text"):
            return positions - config.pad_token_id - 1  # positions are counted from behind the padding id
        return positions

    @property
    def causal(self) -> bool:
        """Whether rows see earlier keys only, in every layer."""
        return all(site.causal for site in survey(self.model).sites)

    @property
    def reads(self) -> str:
        """What it is given: "text", "picture" or "sound"."""
        return PICTURE if self.towers else reads(self.model)

    @property
    def sees(self) -> bool:
        """Whether it reads text that a picture may come with."""
        return not self.towers and sees(self.model)

    @property
    def two_sided(self) -> bool:
        """Whether it is an encoder-decoder, which reads a source and a target."""
        return is_encoder_decoder(self.model)

    @property
    def predicts_next(self) -> bool:
        """Whether logits at a position are about the token after it."""
        writing = [site.causal for site in survey(self.model).sites if site.info.kind in ("self", "decoder")]
        return all(writing) and self.model.get_output_embeddings() is not None

    def start_of_target(self) -> int:
        """The token that every target of an encoder-decoder starts with."""
        for config in (self.model.generation_config, self.config):
            for name in ("decoder_start_token_id", "bos_token_id", "pad_token_id"):
                if isinstance(found := getattr(config, name, None), int):
                    return found
        raise Refused(f"{self.name} does not say which token its targets start with (decoder_start_token_id).")

    def describe(self) -> ModelCard:
        """What can be said of the model before anything runs. Of two towers, of the picture's."""
        if self.towers:
            return self.towers[PICTURE].describe()
        family = family_of(self.config.model_type)
        return ModelCard(
            name=self.name,
            revision=self.revision,
            model_type=self.config.model_type,
            family=family.title if family else None,
            architecture=type(self.model).__name__,
            parameters=sum(p.numel() for p in self.model.parameters()),
            vocabulary=getattr(self.config, "vocab_size", 0),
            hidden_size=getattr(self.config, "hidden_size", 0),
            max_positions=self.max_positions,
            dtype=self.dtype,
            device=str(self.device),
            causal=self.causal,
            layers=list(survey(self.model).layers),
            checks=self.checks,
        )


def hash_weights(model) -> str:
    """sha256 over all parameters and buffers that are saved."""
    digest = hashlib.sha256()
    for name, tensor in sorted(model.state_dict().items()):
        tensor = at_hand(model, name, tensor)
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        digest.update(as_bytes(tensor))
    return digest.hexdigest()[:16]


def at_hand(model, name: str, tensor: Tensor) -> Tensor:
    """The tensor itself; of a part that lies on the disk or waits in memory, what its hook would load."""
    if not tensor.is_meta:
        return tensor
    module, _, own = name.rpartition(".")
    return model.get_submodule(module)._hf_hook.weights_map[own]


def as_bytes(tensor: Tensor) -> memoryview:
    """The contents of a tensor, without a copy where it lies on the CPU in one piece."""
    flat = tensor.detach().cpu().contiguous().reshape(-1)
    return memoryview(flat.view(torch.uint8).numpy())
