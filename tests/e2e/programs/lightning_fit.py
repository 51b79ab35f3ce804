"""Lightning: its TensorBoard logger, validation and a checkpoint; plain: gradient accumulation and clipping, no logger."""

import sys
import warnings

import lightning as L  # noqa: N812  as its own documentation has it
import torch
from lightning.pytorch.loggers import TensorBoardLogger
from tiny import GPT, config, digest, tokens
from torch.utils.data import DataLoader, TensorDataset

warnings.simplefilter("ignore")
out, plain = sys.argv[1], "plain" in sys.argv


class Language(L.LightningModule):
    def __init__(self):
        super().__init__()
        self.model = GPT(config())

    def training_step(self, batch, at):
        loss = self.model(batch[0][:, :-1], batch[0][:, 1:])[1]
        self.log("train_loss", loss)
        print(self.global_step, loss.item().hex())
        return loss

    def validation_step(self, batch, at):
        self.log("val_loss", self.model(batch[0][:, :-1], batch[0][:, 1:])[1])

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=1e-3)


if plain:
    # Eight batches an epoch: two steps of three micro-batches, and one of the two that are left.
    rows, own = 32, {"accumulate_grad_batches": 3, "gradient_clip_val": 1.0, "val_check_interval": 0.5}
    own.update(max_epochs=2, num_sanity_val_steps=0, logger=False, enable_checkpointing=False)
else:
    rows, own = 20, {"max_epochs": 3, "num_sanity_val_steps": 1, "log_every_n_steps": 2}
    own.update(logger=TensorBoardLogger(out, name="", version=""))
L.seed_everything(0, verbose=False)
language = Language()
trainer = L.Trainer(
    accelerator="cpu", enable_progress_bar=False, enable_model_summary=False, default_root_dir=out, **own
)
trainer.fit(
    language,
    DataLoader(TensorDataset(tokens(rows, 17)), batch_size=4, num_workers=0),
    DataLoader(TensorDataset(tokens(8, 17, seed=1)), batch_size=4, num_workers=0),
)
print(digest(language))
