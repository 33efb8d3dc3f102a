"""pytorch-lightning: what lightning runs, under the older name."""

import pytorch_lightning
from pytorch_lightning.callbacks import ModelCheckpoint
from trainers import run

run(pytorch_lightning, ModelCheckpoint)
