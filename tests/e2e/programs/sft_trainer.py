"""Supervised fine-tuning by TRL: a tiny random Llama and rows of token ids, with accumulation and its collator."""

import sys

import torch
from datasets import Dataset, disable_progress_bars
from tiny import VOCAB, digest
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast, set_seed
from transformers.trainer_callback import PrinterCallback
from trl import SFTConfig, SFTTrainer

torch.set_num_threads(1)
disable_progress_bars()
set_seed(0)
words = {"<pad>": 0, "<eos>": 1, **{f"w{at}": at for at in range(2, VOCAB)}}
tokenizer = PreTrainedTokenizerFast(
    tokenizer_object=Tokenizer(WordLevel(words, unk_token="<pad>")), pad_token="<pad>", eos_token="<eos>"
)
shape = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2}
model = LlamaForCausalLM(LlamaConfig(vocab_size=VOCAB, max_position_embeddings=32, **shape))
# Every row has twelve tokens, so that every batch has, in whatever order they come.
rows = Dataset.from_dict({"input_ids": [[2 + (row * at) % 50 for at in range(12)] for row in range(16)]})
arguments = SFTConfig(
    output_dir=sys.argv[1],
    per_device_train_batch_size=2,
    gradient_accumulation_steps=2,
    num_train_epochs=2,
    max_length=16,
    gradient_checkpointing=False,
    bf16=False,
    logging_steps=2,
    save_strategy="no",
    report_to=[],
    disable_tqdm=True,
    use_cpu=True,
    seed=0,
)
trainer = SFTTrainer(model=model, args=arguments, train_dataset=rows, processing_class=tokenizer)
trainer.remove_callback(PrinterCallback)
result = trainer.train()
for entry in trainer.state.log_history:
    print(entry["step"], {name: value for name, value in entry.items() if name in ("loss", "grad_norm", "num_tokens")})
print(result.global_step, result.training_loss)
print(digest(model))
