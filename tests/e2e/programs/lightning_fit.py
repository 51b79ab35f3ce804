"""Lightning with its TensorBoard logger, validation and a checkpoint."""

import sys
import warnings

import lightning as L  # noqa: N812  as its own documentation has it
import torch
from lightning.pytorch.loggers import TensorBoardLogger
from tiny import GPT, config, digest, tokens
from torch.utils.data import DataLoader, TensorDataset

warnings.simplefilter("ignore")


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


L.seed_everything(0, verbose=False)
language = Language()
trainer = L.Trainer(
    max_epochs=3,
    accelerator="cpu",
    logger=TensorBoardLogger(sys.argv[1], name="", version=""),
    log_every_n_steps=2,
    enable_progress_bar=False,
    enable_model_summary=False,
    num_sanity_val_steps=1,
    default_root_dir=sys.argv[1],
)
trainer.fit(
    language,
    DataLoader(TensorDataset(tokens(20, 17)), batch_size=4, num_workers=0),
    DataLoader(TensorDataset(tokens(8, 17, seed=1)), batch_size=4, num_workers=0),
)
print(digest(language))
