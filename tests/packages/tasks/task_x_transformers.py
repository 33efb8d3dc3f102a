"""x-transformers: a decoder with rotary positions trains and generates; an encoder with a mask."""

import torch
from common import integers, set_weights, show, train
from x_transformers import AutoregressiveWrapper, Decoder, Encoder, TransformerWrapper

model = AutoregressiveWrapper(
    TransformerWrapper(
        num_tokens=32,
        max_seq_len=24,
        attn_layers=Decoder(
            dim=32,
            depth=2,
            heads=2,
            attn_dim_head=16,
            rotary_pos_emb=True,
            ff_glu=True,
            use_rmsnorm=True,
        ),
    )
)
set_weights(model, 0.1)
tokens = integers(32, 2, 20)
show("losses", train(lambda: model(tokens), None, 4, torch.optim.AdamW(model.parameters(), 1e-3)))
model.eval()
show("generated", model.generate(tokens[:, :4], 8, temperature=0.0, cache_kv=True))

encoder = TransformerWrapper(
    num_tokens=32,
    max_seq_len=16,
    attn_layers=Encoder(dim=32, depth=1, heads=2, alibi_pos_bias=True),
)
set_weights(encoder, 0.1)
mask = torch.arange(16)[None] < torch.tensor([[16], [9]])
show("encoded", encoder(tokens[:, :16], mask=mask)[:, 0, :8])
