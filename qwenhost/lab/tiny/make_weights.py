"""Make the stand-in's weights: Qwen3.5's architecture in small, random, then taught a few answers by heart.

Run as `python make_weights.py RECIPE.json` with the vLLM environment's Python. Recipe keys used: out (folder
with the tokenizer), vocabulary, answers, seed, steps (upper limit), loss (mean cross entropy that is enough).
Ends with exit status 1 when one of the answers does not come back word for word.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import torch  # type: ignore[import-not-found, unused-ignore]
from transformers import (  # type: ignore[import-not-found, unused-ignore]
    AutoTokenizer,
    GenerationConfig,
    Qwen3_5Config,
    Qwen3_5ForConditionalGeneration,
)

HIDDEN = 256
THOUGHT = "The answer is known by heart.\n</think>\n\n"
LEARNING_RATE = 2e-3


def main(recipe: dict[str, Any]) -> None:
    """Build, teach, verify and save the model."""
    torch.manual_seed(recipe["seed"])
    torch.set_num_threads(1)  # the order of sums, and so the weights, depends on the number of threads
    out = Path(recipe["out"])
    tokenizer = AutoTokenizer.from_pretrained(out)
    model = Qwen3_5ForConditionalGeneration(configuration(recipe["vocabulary"], tokenizer)).to(torch.float32)
    teach(model, batch(tokenizer, recipe["answers"]), recipe["steps"], recipe["loss"])
    model = model.to(torch.bfloat16).eval()
    verify(model, tokenizer, recipe["answers"])
    model.save_pretrained(out)
    generation(tokenizer).save_pretrained(out)
    write_processors(out)


def configuration(vocabulary: int, tokenizer: Any) -> Any:
    """Return a configuration with three gated delta net layers, one of attention and a small vision tower."""
    text = {
        "vocab_size": vocabulary,
        "hidden_size": HIDDEN,
        "intermediate_size": 2 * HIDDEN,
        "num_hidden_layers": 4,
        "full_attention_interval": 4,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 64,
        "linear_num_key_heads": 2,
        "linear_num_value_heads": 4,
        "linear_key_head_dim": 64,
        "linear_value_head_dim": 64,
        "linear_conv_kernel_dim": 4,
        "attn_output_gate": True,
        "mamba_ssm_dtype": "float32",
        "mtp_num_hidden_layers": 0,
        "max_position_embeddings": 262144,
        "rope_parameters": {
            "rope_type": "default",
            "rope_theta": 10_000_000,
            "partial_rotary_factor": 0.25,
            "mrope_interleaved": True,
            "mrope_section": [3, 3, 2],
        },
        "tie_word_embeddings": True,
        "dtype": "bfloat16",
        "eos_token_id": token_id(tokenizer, "<|endoftext|>"),
    }
    return Qwen3_5Config(
        text_config=text,
        vision_config=vision(),
        tie_word_embeddings=True,
        image_token_id=token_id(tokenizer, "<|image_pad|>"),
        video_token_id=token_id(tokenizer, "<|video_pad|>"),
        vision_start_token_id=token_id(tokenizer, "<|vision_start|>"),
        vision_end_token_id=token_id(tokenizer, "<|vision_end|>"),
    )


def vision() -> dict[str, int]:
    """Return the vision tower's sizes; it stays untaught."""
    return {
        "depth": 2,
        "hidden_size": 64,
        "num_heads": 2,
        "intermediate_size": 128,
        "in_channels": 3,
        "patch_size": 16,
        "spatial_merge_size": 2,
        "temporal_patch_size": 2,
        "out_hidden_size": HIDDEN,
        "num_position_embeddings": 256,
    }


def token_id(tokenizer: Any, token: str) -> int:
    """Return the number of a token that the tokenizer must have."""
    return int(tokenizer.convert_tokens_to_ids(token))


def prompt(tokenizer: Any, question: str, thinking: bool) -> list[int]:
    """Return the token ids that a server makes of one question."""
    messages = [{"role": "user", "content": question}]
    text = tokenizer.apply_chat_template(
        messages, tokenize=False, add_generation_prompt=True, enable_thinking=thinking
    )
    return list(tokenizer(text)["input_ids"])


def lessons(tokenizer: Any, answers: list[list[str]]) -> list[tuple[list[int], list[int]]]:
    """Return (prompt ids, reply ids) of each answer, with and without thinking."""
    pairs = []
    for question, answer in answers:
        for thinking in (True, False):
            reply = (THOUGHT if thinking else "") + answer + "<|im_end|>"
            pairs.append((prompt(tokenizer, question, thinking), list(tokenizer(reply)["input_ids"])))
    return pairs


def batch(tokenizer: Any, answers: list[list[str]]) -> dict[str, Any]:
    """Return one padded batch in which only the replies count for the loss."""
    pairs = lessons(tokenizer, answers)
    width = max(len(asked) + len(reply) for asked, reply in pairs)
    ids = torch.full((len(pairs), width), token_id(tokenizer, "<|endoftext|>"))
    labels, mask = torch.full_like(ids, -100), torch.zeros_like(ids)
    for row, (asked, reply) in enumerate(pairs):
        end = len(asked) + len(reply)
        ids[row, :end] = torch.tensor(asked + reply)
        labels[row, len(asked) : end] = torch.tensor(reply)
        mask[row, :end] = 1
    return {"input_ids": ids, "labels": labels, "attention_mask": mask}


def teach(model: Any, lesson: dict[str, Any], steps: int, enough: float) -> None:
    """Repeat the one batch until the loss is below `enough`, or `steps` are used up."""
    parameters = [value for name, value in model.named_parameters() if "visual" not in name]
    optimizer = torch.optim.AdamW(parameters, lr=LEARNING_RATE, weight_decay=0.0)
    for _ in range(steps):
        loss = model(**lesson).loss
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(parameters, 1.0)
        optimizer.step()
        if loss.item() < enough:
            break


def verify(model: Any, tokenizer: Any, answers: list[list[str]]) -> None:
    """End the process when a taught reply does not come back."""
    for asked, reply in lessons(tokenizer, answers):
        made = model.generate(
            torch.tensor([asked]),
            attention_mask=torch.ones(1, len(asked), dtype=torch.long),
            max_new_tokens=len(reply),
            do_sample=False,
            eos_token_id=token_id(tokenizer, "<|im_end|>"),
            pad_token_id=token_id(tokenizer, "<|endoftext|>"),
        )
        if made[0, len(asked) :].tolist() != reply:
            sys.exit(f"not memorised: {tokenizer.decode(reply)!r}")


def generation(tokenizer: Any) -> Any:
    """Return generation_config.json with the sampling defaults of Qwen3.5."""
    stops = [token_id(tokenizer, "<|im_end|>"), token_id(tokenizer, "<|endoftext|>")]
    pad = token_id(tokenizer, "<|endoftext|>")
    return GenerationConfig(
        do_sample=True, temperature=0.6, top_k=20, top_p=0.95, eos_token_id=stops, pad_token_id=pad
    )


def write_processors(out: Path) -> None:
    """Write the image and video processor settings; vLLM reads them even when it serves text alone."""
    common = {
        "patch_size": 16,
        "temporal_patch_size": 2,
        "merge_size": 2,
        "processor_class": "Qwen3VLProcessor",
    }
    common |= {"image_mean": [0.5, 0.5, 0.5], "image_std": [0.5, 0.5, 0.5]}
    image = {"image_processor_type": "Qwen2VLImageProcessorFast", "size": edges(65536, 16777216)}
    video = {"video_processor_type": "Qwen3VLVideoProcessor", "size": edges(4096, 25165824)}
    for name, special in (("preprocessor_config", image), ("video_preprocessor_config", video)):
        (out / f"{name}.json").write_text(json.dumps(common | special, indent=1) + "\n", encoding="utf-8")


def edges(shortest: int, longest: int) -> dict[str, int]:
    """Return the pixel limits of one input."""
    return {"shortest_edge": shortest, "longest_edge": longest}


if __name__ == "__main__":
    main(json.loads(Path(sys.argv[1]).read_text(encoding="utf-8")))
