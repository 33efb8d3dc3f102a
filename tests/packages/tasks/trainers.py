"""What both names of lightning run: the Trainer fits, validates, checkpoints, resumes, predicts."""

import logging
import os
import tempfile
import warnings

import torch
from common import array, set_weights, show
from torch.utils.data import DataLoader, TensorDataset


def run(lightning, ModelCheckpoint):
    """Print numbers of a small model.

    Args:
        lightning: the module, under either name.
        ModelCheckpoint: its class.
    """
    warnings.filterwarnings("ignore")
    for name in ("lightning.pytorch", "pytorch_lightning"):
        logging.getLogger(name).setLevel(logging.ERROR)
    Model = model_class(lightning)
    folder = tempfile.mkdtemp()
    data = TensorDataset(array(24, 4), array(24, 1, seed=1))
    loader = DataLoader(data, batch_size=8)
    quiet = {
        "accelerator": "cpu",
        "devices": 1,
        "logger": False,
        "enable_progress_bar": False,
        "enable_model_summary": False,
        "default_root_dir": folder,
    }
    model = set_weights(Model(), 0.3)
    keep = ModelCheckpoint(dirpath=folder, save_last=True, monitor="validation")
    trainer = lightning.Trainer(max_epochs=2, callbacks=[keep], gradient_clip_val=0.5, **quiet)
    trainer.fit(model, loader, loader)
    show("losses", model.seen)
    show("validation", trainer.callback_metrics["validation"])
    show("best", keep.best_model_score)

    back = Model.load_from_checkpoint(keep.best_model_path)
    show("loaded", torch.cat(lightning.Trainer(**quiet).predict(back, loader))[:5])
    resumed = Model()
    trainer = lightning.Trainer(max_epochs=3, enable_checkpointing=False, **quiet)
    trainer.fit(resumed, loader, loader, ckpt_path=os.path.join(folder, "last.ckpt"))
    show("resumed", resumed.seen)


def model_class(lightning):
    class Model(lightning.LightningModule):
        def __init__(self, width=8):
            super().__init__()
            self.save_hyperparameters()
            self.net = torch.nn.Sequential(
                torch.nn.Linear(4, width), torch.nn.Tanh(), torch.nn.Linear(width, 1)
            )
            self.seen = []

        def loss(self, batch):
            x, y = batch
            return torch.nn.functional.mse_loss(self.net(x), y)

        def training_step(self, batch, index):
            loss = self.loss(batch)
            self.seen.append(loss.item())
            self.log("train", loss)
            return loss

        def validation_step(self, batch, index):
            self.log("validation", self.loss(batch), prog_bar=True)

        def predict_step(self, batch, index):
            return self.net(batch[0])

        def configure_optimizers(self):
            optimizer = torch.optim.AdamW(self.parameters(), lr=0.02)
            return [optimizer], [torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.5)]

    return Model
