"""accelerate: a training loop with accumulation, clipping, saved state; models made empty."""

import tempfile

import torch
from accelerate import Accelerator, init_empty_weights
from accelerate.utils import compute_module_sizes, set_seed
from common import array, set_weights, show
from torch.utils.data import DataLoader, TensorDataset

set_seed(0)
accelerator = Accelerator(cpu=True, gradient_accumulation_steps=2)
model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 1))
set_weights(model, 0.4)
optimizer = torch.optim.AdamW(model.parameters(), lr=0.02)
schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 8)
loader = DataLoader(TensorDataset(array(48, 4), array(48, 1, seed=1)), batch_size=8)
model, optimizer, loader, schedule = accelerator.prepare(model, optimizer, loader, schedule)


def epoch():
    losses = []
    for x, y in loader:
        with accelerator.accumulate(model):
            loss = torch.nn.functional.mse_loss(model(x), y)
            accelerator.backward(loss)
            if accelerator.sync_gradients:
                accelerator.clip_grad_norm_(model.parameters(), 0.5)
            optimizer.step()
            schedule.step()
            optimizer.zero_grad()
        losses.append(loss.item())
    return losses


show("losses", epoch())
folder = tempfile.mkdtemp()
accelerator.save_state(folder)
first = epoch()
accelerator.load_state(folder)
second = epoch()
show("again", second)
assert first == second
show("gathered", accelerator.gather_for_metrics(accelerator.unwrap_model(model)(array(3, 4))))
with init_empty_weights():
    empty = torch.nn.Sequential(torch.nn.Linear(1000, 1000), torch.nn.Linear(1000, 10))
show("sizes", [compute_module_sizes(empty)[name] for name in ("", "0", "1")])
assert empty[0].weight.device.type == "meta"
