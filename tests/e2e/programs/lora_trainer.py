"""LoRA by peft under the Hugging Face Trainer, with gradient checkpointing, evaluation and saves."""

import sys

import torch
from peft import LoraConfig, get_peft_model
from tiny import VOCAB, digest, tokens
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments, set_seed
from transformers.trainer_callback import PrinterCallback

torch.set_num_threads(1)
set_seed(0)
model = GPT2LMHeadModel(GPT2Config(vocab_size=VOCAB, n_positions=16, n_embd=16, n_layer=2, n_head=2))
model = get_peft_model(model, LoraConfig(task_type="CAUSAL_LM", r=2, target_modules=["c_attn"], fan_in_fan_out=True))
rows = [{"input_ids": row, "labels": row} for row in tokens(24, 16)]
arguments = TrainingArguments(
    output_dir=sys.argv[1],
    per_device_train_batch_size=4,
    per_device_eval_batch_size=4,
    num_train_epochs=2,
    gradient_checkpointing=True,
    logging_steps=4,
    eval_strategy="epoch",
    save_strategy="epoch",
    report_to=[],
    disable_tqdm=True,
    use_cpu=True,
    seed=0,
)
trainer = Trainer(model=model, args=arguments, train_dataset=rows, eval_dataset=rows[:8])
trainer.remove_callback(PrinterCallback)
result = trainer.train()
for entry in trainer.state.log_history:
    print(entry["step"], {name: value for name, value in entry.items() if name in ("loss", "eval_loss", "grad_norm")})
print(result.global_step, result.training_loss)
print(digest(model))
