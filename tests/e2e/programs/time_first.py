"""A torch transformer that is given its token ids as (T, B), as its layers want them unless told otherwise."""

import torch
from tiny import VOCAB, digest
from torch import nn


class Language(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(VOCAB, 16)
        self.encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(16, 2, 32), 2, enable_nested_tensor=False)
        self.decode = nn.Linear(16, VOCAB)

    def forward(self, ids):
        mask = torch.triu(torch.full((len(ids), len(ids)), float("-inf")), 1)
        return self.decode(self.encoder(self.embed(ids), mask=mask))


torch.manual_seed(0)
stream = torch.randint(0, VOCAB, (9 * 12 + 1, 5))
model = Language()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
for at in range(0, len(stream) - 1, 9):
    loss = nn.functional.cross_entropy(model(stream[at : at + 9]).flatten(0, 1), stream[at + 1 : at + 10].flatten())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(at, loss.item().hex())
print(digest(model))
