"""A convolutional network on images, in the manner of the MNIST example: train and test functions, a schedule."""

import os
import tempfile

import torch
from tiny import digest
from torch import nn
from torch.nn import functional as F  # noqa: N812  the name that everybody gives it
from torch.utils.data import DataLoader, TensorDataset


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(1, 4, 3), nn.Conv2d(4, 8, 3)
        self.fc1, self.fc2 = nn.Linear(8 * 12 * 12, 16), nn.Linear(16, 10)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.conv2(F.relu(self.conv1(x)))), 2)
        return F.log_softmax(self.fc2(F.relu(self.fc1(torch.flatten(x, 1)))), dim=1)


def train(model, loader, optimizer):
    model.train()
    for at, (data, target) in enumerate(loader):
        optimizer.zero_grad()
        loss = F.nll_loss(model(data), target)
        loss.backward()
        optimizer.step()
        print(at, loss.item().hex())


def test(model, loader):
    model.eval()
    right = 0
    with torch.no_grad():
        for data, target in loader:
            right += model(data).argmax(1).eq(target).sum().item()
    print("right", right)


torch.manual_seed(0)
images, labels = torch.randn(50, 1, 28, 28), torch.randint(0, 10, (50,))
loader = DataLoader(TensorDataset(images, labels), batch_size=8, shuffle=True)  # 6 of 8 and one of 2
model = Net()
optimizer = torch.optim.Adadelta(model.parameters(), lr=1.0)
schedule = torch.optim.lr_scheduler.StepLR(optimizer, step_size=1, gamma=0.7)
for _ in range(3):
    train(model, loader, optimizer)
    test(model, DataLoader(TensorDataset(images[:20], labels[:20]), batch_size=10))
    schedule.step()
torch.save(model.state_dict(), os.path.join(tempfile.mkdtemp(), "mnist_cnn.pt"))
print(digest(model))
