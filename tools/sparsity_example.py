"""Prints the figures of the example in docs/sparsity.md: `python -m tools.sparsity_example`."""

from __future__ import annotations

from collections import Counter

from backend.models import load
from backend.pipeline import Options, analyse
from backend.prompts import Prompt, encode
from backend.sparsity.costs import costs
from backend.sparsity.head_table import layer_rows
from backend.sparsity.patterns import WORDS
from backend.studies import run_study
from backend.studies.policy_sweep import STUDY, Parameters
from pages.shared.examples import DOCUMENTS
from pages.shared.panels.sparsity_cost import title_of

PROMPT = Prompt(documents=list(DOCUMENTS), question="Who kept the Skerrin lighthouse in 1902?")
POLICIES = ("snapkv", "h2o", "streaming_llm", "expected_attention", "random", "oracle")


def main() -> None:
    model = load("smollm2-135m-instruct")
    token_ids = tuple(encode(model, PROMPT).token_ids)
    analysis = analyse(model, PROMPT, options=Options(exact_maps="all"))
    rows = [row for layer in analysis.layers() for row in layer_rows(analysis, "self", layer.layer)]
    counts = Counter(row["pattern"] for row in rows).most_common()
    print(f"{len(token_ids)} tokens; patterns: " + ", ".join(f"{count} {WORDS[name]}" for name, count in counts))
    shares = sorted(row["share_95"] for row in rows)
    print(f"share of the visible keys for 95 %: half of the heads at most {shares[len(shares) // 2]:.2f}\n")
    given = Parameters(
        token_ids=token_ids, subject="", policies=POLICIES, patterns=("best",), budgets=(0.1, 0.25, 0.5), new_tokens=12
    )
    found = run_study(STUDY, model, given).table("runs").to_pylist()
    print("| policy | kept | retained | predicted | measured | same first word | loss | cache MB |")
    print("|---|---|---|---|---|---|---|---|")
    for row in found:
        print(
            f"| {title_of(row['choice'])} | {row['kept']:.0%} | {row['retained']:.3f} | {row['prediction']:.3f} | "
            f"{row['kl']:.3f} | {row['same_first']:.0%} | {row['loss']:.3f} | {row['cache_bytes'] / 1e6:.2f} |"
        )
    dense = found[0]
    print(f"\ndense: loss {dense['loss_dense']:.3f}, cache {dense['cache_bytes_dense'] / 1e6:.2f} MB")
    print(f"written densely: {dense['text_dense']!r}")
    for row in found:
        if row["budget"] == 0.25:
            print(f"written with {title_of(row['choice'])}, 25 %: {row['text']!r}")
    one = costs(analysis.layers(), 8192), costs(analysis.layers(), 8192, 0.25)
    print(f"8,192 tokens in 16 bits: {one[0].cache_bytes / 1e6:.0f} MB, a quarter {one[1].cache_bytes / 1e6:.0f} MB")


if __name__ == "__main__":
    main()
