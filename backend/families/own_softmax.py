"""Families whose code computes its own softmax: watched from inside, map by map (backend/dense.py)."""

from backend.families import Family

FAMILIES = (
    Family("Bloom", ("bloom",), "a bias by distance on the scores (ALiBi)", dense=True),
    Family("Falcon", ("falcon",), "one key/value head or more; rotary positions or ALiBi", dense=True),
    Family("MPT", ("mpt",), "a bias by distance on the scores (ALiBi)", dense=True),
    Family("GPT-Neo", ("gpt_neo",), "every second layer sees a window; scores are not scaled", dense=True),
    Family("GPT-1", ("openai-gpt",), "learned positions", dense=True),
    Family("GPT-NeoX Japanese", ("gpt_neox_japanese",), "rotary positions on a part of the head", dense=True),
    Family("XGLM", ("xglm",), "positions as sines", dense=True),
    Family("DeBERTa", ("deberta",), "positions and contents weighed apart", dense=True),
    Family("DeBERTa-v2", ("deberta-v2",), "positions and contents weighed apart, distances in buckets", dense=True),
    Family("XLNet", ("xlnet",), "contents and relative positions weighed apart; sees both sides", dense=True),
    Family("XLM", ("xlm",), "sees both sides", dense=True),
    Family("FlauBERT", ("flaubert",), "sees both sides", dense=True),
    Family("MPNet", ("mpnet",), "a bias by distance that all layers share", dense=True),
    Family("RemBERT", ("rembert",), "sees both sides", dense=True),
    Family("RoFormer", ("roformer",), "rotary positions; sees both sides", dense=True),
    Family("Megatron-BERT", ("megatron-bert",), "sees both sides", dense=True),
    Family("ConvBERT", ("convbert",), "half of the heads are convolutions, which have no map", dense=True),
    Family("Funnel", ("funnel",), "later blocks have fewer queries and keys than tokens", dense=True),
    Family("LUKE", ("luke",), "sees both sides", dense=True),
    Family("FSMT", ("fsmt",), "not offered", refusal="its code in this version of transformers writes no target"),
    Family("MVP", ("mvp",), "as BART", dense=True),
)
