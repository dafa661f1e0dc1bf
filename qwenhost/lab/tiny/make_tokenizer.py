"""Train the stand-in's tokenizer: byte-level BPE with Qwen's special tokens, on text that Python carries.

Run as `python make_tokenizer.py RECIPE.json` with the vLLM environment's Python. Recipe keys used: out
(folder), vocabulary (number of tokens), answers ([[question, answer], ...]).
"""

from __future__ import annotations

import json
import pydoc_data.topics
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tokenizers import (  # type: ignore[import-not-found, unused-ignore]
    AddedToken,
    Regex,
    Tokenizer,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    trainers,
)

CONTROL = (
    "<|endoftext|>",
    "<|im_start|>",
    "<|im_end|>",
    "<|vision_start|>",
    "<|vision_end|>",
    "<|vision_pad|>",
    "<|image_pad|>",
    "<|video_pad|>",
)
"""Hidden from decoded text, as in Qwen's tokenizer."""

VISIBLE = ("<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>", "<think>", "</think>")
"""Kept in decoded text, so that tool and reasoning parsers see them."""

WORDS = r"\s?\p{L}+|\p{N}|\s?[^\s\p{L}\p{N}]+|\s+"
"""A word with its leading blank, one digit, punctuation, white space."""

CHAT_TEMPLATE = """\
{%- macro text_of(content) -%}
{%- if content is string -%}{{ content }}
{%- else -%}
{%- for part in content -%}
{%- if part.type == 'text' -%}{{ part.text }}
{%- elif part.type == 'video' -%}<|vision_start|><|video_pad|><|vision_end|>
{%- else -%}<|vision_start|><|image_pad|><|vision_end|>
{%- endif -%}
{%- endfor -%}
{%- endif -%}
{%- endmacro -%}
{%- for message in messages -%}
{{ '<|im_start|>' ~ message.role ~ '\\n' ~ text_of(message.content) ~ '<|im_end|>\\n' }}
{%- endfor -%}
{%- if add_generation_prompt -%}
{{ '<|im_start|>assistant\\n<think>\\n' }}
{%- if enable_thinking is defined and not enable_thinking -%}{{ '\\n</think>\\n\\n' }}{%- endif -%}
{%- endif -%}
"""


def main(recipe: dict[str, Any]) -> None:
    """Write tokenizer.json, tokenizer_config.json and chat_template.jinja into the recipe's folder."""
    out = Path(recipe["out"])
    tokenizer = train(recipe["vocabulary"], recipe["answers"])
    tokenizer.save(str(out / "tokenizer.json"))
    (out / "tokenizer_config.json").write_text(json.dumps(settings(), indent=1) + "\n", encoding="utf-8")
    (out / "chat_template.jinja").write_text(CHAT_TEMPLATE, encoding="utf-8")


def train(vocabulary: int, answers: list[list[str]]) -> Any:
    """Return a tokenizer of exactly `vocabulary` tokens, special ones last."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.normalizer = normalizers.NFC()
    split = pre_tokenizers.Split(Regex(WORDS), behavior="isolated")
    to_bytes = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([split, to_bytes])
    tokenizer.decoder = decoders.ByteLevel()
    learned = vocabulary - len(CONTROL) - len(VISIBLE)
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=learned, initial_alphabet=alphabet, show_progress=False)
    tokenizer.train_from_iterator(corpus(answers), trainer)
    tokenizer.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in CONTROL])
    tokenizer.add_tokens([AddedToken(token, special=False, normalized=False) for token in VISIBLE])
    if tokenizer.get_vocab_size() != vocabulary:
        sys.exit(f"the corpus gave {tokenizer.get_vocab_size()} tokens, wanted {vocabulary}")
    return tokenizer


def corpus(answers: list[list[str]]) -> Iterator[str]:
    """Yield the answers and the language reference that Python ships as help topics."""
    for question, answer in answers:
        yield f"{question}\n{answer}"
    for name in sorted(pydoc_data.topics.topics):
        yield pydoc_data.topics.topics[name]


def settings() -> dict[str, Any]:
    """Return tokenizer_config.json: the class and the token names that Qwen3.5 uses."""
    return {
        "tokenizer_class": "Qwen2Tokenizer",
        "add_prefix_space": False,
        "bos_token": None,
        "eos_token": "<|im_end|>",
        "pad_token": "<|endoftext|>",
        "unk_token": None,
        "model_max_length": 262144,
        "clean_up_tokenization_spaces": False,
        "image_token": "<|image_pad|>",
        "video_token": "<|video_pad|>",
        "vision_bos_token": "<|vision_start|>",
        "vision_eos_token": "<|vision_end|>",
    }


if __name__ == "__main__":
    main(json.loads(Path(sys.argv[1]).read_text(encoding="utf-8")))
