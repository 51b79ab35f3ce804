"""Lightning with gradient accumulation and clipping, validation twice an epoch, and no logger."""

import sys
import warnings

import lightning as L  # noqa: N812  as its own documentation has it
import torch
from tiny import GPT, config, digest, tokens
from torch.utils.data import DataLoader, TensorDataset

warnings.simplefilter("ignore")


class Language(L.LightningModule):
    def __init__(self):
        super().__init__()
        self.model = GPT(config())

    def training_step(self, batch, at):
        loss = self.model(batch[0][:, :-1], batch[0][:, 1:])[1]
        print(self.global_step, loss.item().hex())
        return loss

    def validation_step(self, batch, at):
        self.log("val_loss", self.model(batch[0][:, :-1], batch[0][:, 1:])[1])

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=1e-3)


L.seed_everything(0, verbose=False)
language = Language()
trainer = L.Trainer(
    max_epochs=2,
    accelerator="cpu",
    accumulate_grad_batches=3,
    gradient_clip_val=1.0,
    val_check_interval=0.5,
    logger=False,
    enable_checkpointing=False,
    enable_progress_bar=False,
    enable_model_summary=False,
    num_sanity_val_steps=0,
    default_root_dir=sys.argv[1],
)
# Eight batches an epoch: two steps of three micro-batches, and one of the two that are left.
trainer.fit(
    language,
    DataLoader(TensorDataset(tokens(32, 17)), batch_size=4),
    DataLoader(TensorDataset(tokens(8, 17, seed=1)), batch_size=4),
)
print(digest(language))
