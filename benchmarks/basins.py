"""The studies of the page of basins on SmolLM2: how long they take and what they find. The example of docs/basins.md.

python -m benchmarks.basins example      the ten documents of docs/basins.md: permutation, calibration, what helps
python -m benchmarks.basins speed        10 documents of 60 tokens, 10 shifts; ten plain forwards beside it
python -m benchmarks.basins needle       4 lengths x 5 depths up to 2,048 tokens, with the causal check
python -m benchmarks.basins encoder      the ten documents, embedded by MiniLM in ten orders
"""

from __future__ import annotations

import os
import sys
import time

import torch

from backend.generate import evaluating
from backend.models import load
from backend.prompts import Prompt, encode
from backend.studies import calibration, needle_sweep, permutation, run_study, segment_order, what_helps
from pages.shared.examples import DOCUMENTS as EXAMPLE

DOCUMENTS = list(EXAMPLE)
QUESTION, ANSWER, GOLD = "Who kept the Skerrin lighthouse in 1902?", "Margaret Lorne", 4
PROMPT = {"documents": DOCUMENTS, "question": QUESTION}
TOKENS = 60  # of a document in the speed run


def timed(study, model, parameters):
    """The study, its plan, its seconds and those that the processors worked for it."""
    print(f"\n## {study.title}: {study.plan(model, parameters).sentence}")
    start, worked = time.perf_counter(), time.process_time()
    found = run_study(study, model, parameters)
    seconds, worked, load_now = time.perf_counter() - start, time.process_time() - worked, os.getloadavg()[0]
    print(
        f"{seconds:.1f} s on {torch.get_num_threads()} threads ({worked:.1f} s of processor time), load {load_now:.1f}"
    )
    return found


def show(found, name: str, condition: str = "true") -> None:
    """A table as text."""
    for row in found.sql(f"SELECT * FROM {name} WHERE {condition}").to_pylist():
        print({key: round(value, 5) if isinstance(value, float) else value for key, value in row.items()})


def example() -> None:
    model = load("smollm2-135m-instruct")
    found = timed(permutation.STUDY, model, permutation.Parameters(prompt=PROMPT, answer=ANSWER))
    show(found, "profile", "view = 'question'")
    show(found, "model")
    show(found, "contents", "view = 'question'")
    show(found, "(SELECT * FROM heads WHERE view = 'question' ORDER BY depth DESC NULLS LAST LIMIT 5)")
    slots = {row["shift"]: row["slot"] for row in found.table("shifts", part=GOLD).to_pylist()}
    print(
        "answer by place:",
        sorted((slots[r["shift"]] + 1, round(r["logprob"], 2)) for r in found.table("answers").to_pylist()),
    )
    found = timed(calibration.STUDY, model, calibration.Parameters(prompt=PROMPT))
    for looking in ("question", "last"):
        for method in calibration.METHODS:
            order = found.table("rankings", looking=looking, method=method).sort_by("place")["part"].to_pylist()
            print(f"{looking} {method}: the answer's document at place {order.index(GOLD) + 1} of 10")
    parameters = what_helps.Parameters(prompt=PROMPT, answer=ANSWER, gold=GOLD)
    show(timed(what_helps.STUDY, model, parameters), "methods")


def speed() -> None:
    model = load("smollm2-135m-instruct")
    documents = [sized(model, text) for text in DOCUMENTS]
    prompt = {"documents": documents, "question": QUESTION}
    encoded = encode(model, Prompt(**prompt))
    print([segment.end - segment.start for segment in encoded.segments if segment.kind == "document"])
    ids = torch.tensor([encoded.token_ids])
    with torch.inference_mode(), evaluating(model):
        model.model(input_ids=ids, use_cache=False)
        start = time.perf_counter()
        for _ in range(10):
            model.model(input_ids=ids, use_cache=False)
    seconds = time.perf_counter() - start
    print(f"ten plain forwards of {ids.shape[1]} tokens: {seconds:.1f} s, load {os.getloadavg()[0]:.1f}")
    timed(permutation.STUDY, model, permutation.Parameters(prompt=prompt))


def sized(model, text: str) -> str:
    """The text again and again, cut to TOKENS tokens."""
    ids = model.tokenizer(f"{text} " * 8)["input_ids"][:TOKENS]
    return model.tokenizer.decode(ids)


def needle() -> None:
    found = timed(needle_sweep.STUDY, load("smollm2-135m-instruct"), needle_sweep.Parameters())
    show(found, "(SELECT length, depth, real_depth, logprob, exact, needle_mass, alike_mass, text FROM cells)")
    show(found, "(SELECT * FROM heads ORDER BY retrieval DESC NULLS LAST LIMIT 8)")
    show(found, "causal_check")


def encoder() -> None:
    found = timed(segment_order.STUDY, load("all-minilm-l6-v2"), segment_order.Parameters(prompt=PROMPT))
    show(found, "effect")
    show(found, "places")
    show(found, "(SELECT layer, avg(front) AS front FROM fronts GROUP BY layer ORDER BY layer)")


if __name__ == "__main__":
    torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "2")))
    for name in sys.argv[1:] or ["example"]:
        {"example": example, "speed": speed, "needle": needle, "encoder": encoder}[name]()
