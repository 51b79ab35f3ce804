"""The Hugging Face Trainer on a tiny random GPT-2, with TensorBoard, evaluation and saves."""

import sys

from tiny import VOCAB, digest, tokens
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments, set_seed
from transformers.trainer_callback import PrinterCallback

output = sys.argv[1]
set_seed(0)
model = GPT2LMHeadModel(GPT2Config(vocab_size=VOCAB, n_positions=16, n_embd=16, n_layer=2, n_head=2))
rows = [{"input_ids": row, "labels": row} for row in tokens(48, 16)]
arguments = TrainingArguments(
    output_dir=output,
    per_device_train_batch_size=4,
    per_device_eval_batch_size=4,
    gradient_accumulation_steps=2,
    num_train_epochs=3,
    logging_steps=2,
    eval_strategy="steps",
    eval_steps=9,
    save_strategy="steps",
    save_steps=9,
    report_to=["tensorboard"],
    disable_tqdm=True,
    use_cpu=True,
    seed=0,
)
trainer = Trainer(model=model, args=arguments, train_dataset=rows, eval_dataset=rows[:12])
trainer.remove_callback(PrinterCallback)
result = trainer.train()
for entry in trainer.state.log_history:
    print(
        entry["step"],
        {name: value for name, value in entry.items() if name in ("loss", "eval_loss", "grad_norm", "learning_rate")},
    )
print(result.global_step, result.training_loss)
print(digest(model))
