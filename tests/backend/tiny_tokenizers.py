"""Tiny tokenizers in the three dialects, built in code."""

from __future__ import annotations

from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors
from tokenizers.trainers import BpeTrainer
from transformers import PreTrainedTokenizerFast

SPECIAL = {"pad_token": "<pad>", "bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>"}
CHAT = (
    "{{ bos_token }}{% for m in messages %}[{{ m.role }}] {{ m.content }}\n{% endfor %}"
    "{% if add_generation_prompt %}[assistant]{% endif %}"
)
CORPUS = ["the cat sat on the mat . unable table able", "hello world of naïve text"]


def byte_level(*, add_bos: bool = False, chat_template: str | None = None) -> PreTrainedTokenizerFast:
    """GPT-2's kind: every byte has a letter, nothing is ever unknown. 300 pieces."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    special = list(SPECIAL.values())
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = BpeTrainer(vocab_size=300, special_tokens=special, initial_alphabet=alphabet, show_progress=False)
    tokenizer.train_from_iterator(CORPUS, trainer)
    if add_bos:
        tokenizer.post_processor = processors.TemplateProcessing(
            single="<s> $A", pair="<s> $A $B", special_tokens=[("<s>", tokenizer.token_to_id("<s>"))]
        )
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, chat_template=chat_template, **SPECIAL)


def wordpiece() -> PreTrainedTokenizerFast:
    """BERT's kind: lower case, no accents, ## continues a word, [UNK] for what is not known."""
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    pieces = [*special, "un", "able", "##able", "the", "cat", "—", "a", "##n", "se", "[", "]", "mask", "##b", "b"]
    tokenizer = Tokenizer(models.WordPiece({p: i for i, p in enumerate(pieces)}, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    names = {"unk_token": "[UNK]", "pad_token": "[PAD]", "cls_token": "[CLS]", "sep_token": "[SEP]"}
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, mask_token="[MASK]", **names)


def sentencepiece() -> PreTrainedTokenizerFast:
    """Llama's kind: ▁ begins a word, bytes for what is not in the vocabulary."""
    pieces = ["<unk>", "<s>", "</s>", "<pad>", *(f"<0x{byte:02X}>" for byte in range(256))]
    pieces += ["▁", "▁un", "able", "▁able", "▁the", "▁cat", "a", "b", "l", "e", "u", "n", "t", "h", "c", "—"]
    merges = [("u", "n"), ("▁", "un"), ("a", "b"), ("l", "e"), ("ab", "le"), ("▁", "able"), ("t", "h"), ("th", "e")]
    merges += [("▁", "the")]
    pieces += [left + right for left, right in merges if left + right not in pieces]
    vocabulary = {piece: number for number, piece in enumerate(pieces)}
    tokenizer = Tokenizer(models.BPE(vocabulary, merges, unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    tokenizer.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    )
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, **SPECIAL)
