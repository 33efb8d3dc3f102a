"""lightning: the Trainer fits, validates, checkpoints, resumes and predicts."""

import lightning
from lightning.pytorch.callbacks import ModelCheckpoint
from trainers import run

run(lightning, ModelCheckpoint)
