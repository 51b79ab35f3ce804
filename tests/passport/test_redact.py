"""Nothing secret of a command line is kept, and nothing useful is lost."""

from __future__ import annotations

import string
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainmeter_core.passport.redact import REDACTED, redact_command, redact_text

CASES = [
    (["--api-key", "abc"], ["--api-key", REDACTED]),
    (["--api_key=abc"], ["--api_key=" + REDACTED]),
    (["--hf_token", "hf_x"], ["--hf_token", REDACTED]),
    (["--hfToken=abc"], ["--hfToken=" + REDACTED]),
    (["-password", "12345"], ["-password", REDACTED]),
    (["--wandb.api_key=1"], ["--wandb.api_key=" + REDACTED]),
    (["wandb.key=0123"], ["wandb.key=" + REDACTED]),
    (["+logger.secret=s"], ["+logger.secret=" + REDACTED]),
    (["WANDB_API_KEY=abc", "python"], ["WANDB_API_KEY=" + REDACTED, "python"]),
    (["AWS_SECRET_ACCESS_KEY=x"], ["AWS_SECRET_ACCESS_KEY=" + REDACTED]),
    (["--token", "--lr", "1"], ["--token", "--lr", "1"]),
    (["https://me:pw@host/x?y=1"], [f"https://{REDACTED}@host/x?y=1"]),
    (["--data=s3://k:s@bucket/x"], [f"--data=s3://{REDACTED}@bucket/x"]),
    (["https://h/x?sig=abc&v=1"], [f"https://h/x?sig={REDACTED}&v=1"]),
    (["hf_" + "a" * 34], [REDACTED]),
    (["ghp_" + "A1" * 18], [REDACTED]),
    (["--x", "AKIA" + "IOSFODNN7EXAMPLE"], ["--x", REDACTED]),
    (["Authorization: Bearer abcdef"], ["Authorization:" + REDACTED]),
    (["sk-proj-abcdefghij0123456789"], [REDACTED]),
]

HARMLESS = [
    ["python", "train.py", "--lr=3e-4", "--steps", "1000"],
    ["--max_tokens", "4096", "--tokenizer=gpt2", "--num-tokens=20B", "--pad_token_id", "0"],
    ["--max-new-tokens=5", "--token-dropout", "0.1", "--vocab-size", "50257"],
    ["--n-keys", "8", "--key-size=64", "--monkey=1", "--keyboard", "us", "--authors=me", "--patience", "3"],
    ["--data", "/mnt/data/openwebtext_tokenized_2024/train_000123.bin"],
    ["--out", "checkpoints/llama-3.1-8b-instruct-lora-r16/2026-11-30T08-57-34"],
    ["--model", "meta-llama/Meta-Llama-3.1-8B-Instruct", "mistralai/Mixtral-8x7B-Instruct-v0.1"],
    ["--nproc_per_node=8", "--rdzv_endpoint=node001.cluster.internal:29500"],
    ["model.encoder.num_hidden_layers=24", "trainer.accumulate_grad_batches=4"],
    ["--fsdp_transformer_layer_cls_to_wrap", "LlamaDecoderLayer"],
    ["run_distributed_training_experiments_with_gradient_checkpointing.py"],
    ["lr3e-4_bs256_ctx4k_L12_H12_d768_dp0", "gpt2-124M-fineweb10B-bf16-8xH100", "exp001_seed42_fold3_lr1e-3_bs32"],
    ["TheBloke/Llama-2-70B-Chat-GPTQ", "deepseek-ai/DeepSeek-R1-Distill-Qwen-32B", "facebook/opt-6.7b"],
    ["risk_assessment_training", "hf_finetune_dataset.py", "disk-offload-parameters", "sk-learn-baselines.py"],
    ["--save-key", "true", "--use-auth", "false"],
]


@pytest.mark.parametrize(("words", "shown"), CASES)
def test_secrets_are_replaced_and_their_flags_stay(words, shown):
    assert redact_command(words) == shown


@pytest.mark.parametrize("words", HARMLESS)
def test_settings_paths_and_names_stay_as_they_are(words):
    assert redact_command(words) == words


@pytest.mark.parametrize(
    ("alphabet", "length"),
    [
        ("0123456789abcdef", 32),
        ("0123456789abcdef", 40),
        (string.ascii_letters + string.digits, 20),
        (string.ascii_letters + string.digits, 40),
        (string.ascii_lowercase + string.digits, 32),
        (string.ascii_letters + string.digits + "-_", 43),
        (string.ascii_letters + string.digits + "+/", 40),
    ],
)
def test_random_keys_without_any_known_shape_are_found(alphabet, length):
    """A key that happens to read like words is kept; that is rare enough to be the right side to err on for names."""
    random = Random(7)
    keys = ["".join(random.choice(alphabet) for _ in range(length)) for _ in range(1000)]
    kept = [key for key in keys if key in " ".join(redact_command(["train.py", "--note=" + key, key]))]
    assert len(kept) <= 30


@given(st.text())
def test_any_text_can_be_redacted(text):
    assert isinstance(redact_text(text), str)
    assert len(redact_command([text, text])) == 2
