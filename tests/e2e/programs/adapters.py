"""LoRA adapters on a small Llama, in a loop of its own, with two lengths of micro-batches in each step."""

import torch
from peft import LoraConfig, get_peft_model
from transformers import LlamaConfig, LlamaForCausalLM

torch.set_num_threads(1)
torch.manual_seed(0)
config = LlamaConfig(
    vocab_size=61,
    hidden_size=16,
    intermediate_size=24,
    num_hidden_layers=2,
    num_attention_heads=2,
    num_key_value_heads=1,
)
model = get_peft_model(LlamaForCausalLM(config), LoraConfig(r=2, lora_dropout=0.1, target_modules=["q_proj", "v_proj"]))
optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=1e-2)
generator = torch.Generator().manual_seed(1)
for step in range(6):
    for length in (16, 8):
        batch = torch.randint(0, 61, (2, length), generator=generator)
        loss = model(input_ids=batch, labels=batch).loss
        loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    print(step, loss.item().hex())
print(torch.rand(1).item().hex())
