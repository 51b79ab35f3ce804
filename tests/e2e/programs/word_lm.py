"""A recurrent language model as in word_language_model: (T, B) layout, carried hidden state, SGD by hand or not."""

import sys

import torch
from tiny import VOCAB, digest
from torch import nn


class RNNModel(nn.Module):
    def __init__(self):
        super().__init__()
        self.drop = nn.Dropout(0.2)
        self.encoder = nn.Embedding(VOCAB, 12)
        self.rnn = nn.LSTM(12, 20, 2, dropout=0.2)
        self.decoder = nn.Linear(20, VOCAB)

    def forward(self, data, hidden):
        output, hidden = self.rnn(self.drop(self.encoder(data)), hidden)
        return nn.functional.log_softmax(self.decoder(self.drop(output)).view(-1, VOCAB), dim=1), hidden

    def init_hidden(self, batch):
        weight = next(self.parameters())
        return weight.new_zeros(2, batch, 20), weight.new_zeros(2, batch, 20)


torch.manual_seed(0)
bptt, batch = 9, 5
stream = torch.randint(0, VOCAB, (bptt * 12 + 1, batch))
model = RNNModel()
optimizer = torch.optim.SGD(model.parameters(), lr=0.5) if "--sgd" in sys.argv else None
model.train()
hidden = model.init_hidden(batch)
for at in range(0, len(stream) - 1, bptt):
    data, target = stream[at : at + bptt], stream[at + 1 : at + 1 + bptt].reshape(-1)
    model.zero_grad()
    hidden = tuple(state.detach() for state in hidden)
    output, hidden = model(data, hidden)
    loss = nn.functional.nll_loss(output, target)
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 0.25)
    if optimizer is not None:
        optimizer.step()
    else:
        for p in model.parameters():
            p.data.add_(p.grad, alpha=-0.5)
    print(at, loss.item().hex())
print(digest(model))
