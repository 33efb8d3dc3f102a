"""transformers: GPT-2, Llama and BERT from configurations train, and generate with a cache."""

import os

os.environ["HF_HUB_OFFLINE"] = "1"

import torch
from common import integers, set_weights, show, train
from transformers import (
    BertConfig,
    BertForMaskedLM,
    GPT2Config,
    GPT2LMHeadModel,
    LlamaConfig,
    LlamaForCausalLM,
)

dropless = {"resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0}
gpt2 = GPT2LMHeadModel(
    GPT2Config(
        vocab_size=64,
        n_positions=32,
        n_embd=32,
        n_layer=2,
        n_head=2,
        bos_token_id=1,
        eos_token_id=1,
        **dropless,
    )
)
llama = LlamaForCausalLM(
    LlamaConfig(
        vocab_size=64,
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=32,
    )
)
bert = BertForMaskedLM(
    BertConfig(
        vocab_size=64,
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=2,
        num_attention_heads=2,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
    )
)
tokens = integers(64, 2, 16)
mask = (torch.arange(16)[None] < torch.tensor([[16], [11]])).long()
for name, model in (("gpt2", gpt2), ("llama", llama), ("bert", bert)):
    set_weights(model)
    model.train()
    step = lambda m=model: m(input_ids=tokens, attention_mask=mask, labels=tokens).loss  # noqa: E731
    show(name, train(step, None, 4, torch.optim.AdamW(model.parameters(), lr=1e-3)))
    model.eval()
    with torch.no_grad():
        show(f"{name} logits", model(input_ids=tokens, attention_mask=mask).logits[:, 2, :6])
for name, model in (("gpt2", gpt2), ("llama", llama)):
    options = {"max_new_tokens": 8, "do_sample": False, "pad_token_id": 0}
    prompt = tokens[:, :4]
    ones = torch.ones_like(prompt)
    for cache in (True, False):
        made = model.generate(prompt, attention_mask=ones, use_cache=cache, **options)
        show(f"{name} generated, cache {cache}", made)
    show(f"{name} beams", model.generate(prompt, attention_mask=ones, num_beams=3, **options))
