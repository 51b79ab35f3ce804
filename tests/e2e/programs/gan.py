"""Two networks that train against each other, the discriminator first, the bigger generator second."""

import torch
from tiny import digest
from torch import nn

torch.manual_seed(0)
generator = nn.Sequential(nn.Linear(8, 64), nn.ReLU(), nn.Linear(64, 16))
discriminator = nn.Sequential(nn.Linear(16, 8), nn.ReLU(), nn.Linear(8, 1))
of_generator = torch.optim.Adam(generator.parameters(), lr=1e-3)
of_discriminator = torch.optim.Adam(discriminator.parameters(), lr=1e-3)
bce = nn.functional.binary_cross_entropy_with_logits
for step in range(20):
    real, noise = torch.randn(12, 16), torch.randn(12, 8)
    of_discriminator.zero_grad()
    fake = generator(noise)
    loss_d = bce(discriminator(real), torch.ones(12, 1)) + bce(discriminator(fake.detach()), torch.zeros(12, 1))
    loss_d.backward()
    of_discriminator.step()
    of_generator.zero_grad()
    loss_g = bce(discriminator(fake), torch.ones(12, 1))
    loss_g.backward()
    of_generator.step()
    print(step, loss_d.item().hex(), loss_g.item().hex())
print(digest(generator, discriminator))
