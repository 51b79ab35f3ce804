"""A training loop with four waits that can be taken out, each by an option: what to do about `trainmeter/time/*`.

    tm examples/four_waits.py                    # all four
    tm examples/four_waits.py --workers 4        # reads ahead
    tm examples/four_waits.py --log-every 50     # logs less often
    tm examples/four_waits.py --eval-every 100   # evaluates less often
    tm examples/four_waits.py --save-every 100   # saves less often

It logs to MLflow, into a database in the folder where it runs.
"""

import argparse
import tempfile
import time

import torch
from torch.utils.data import DataLoader, Dataset
from train_gpt import GPT, GPTConfig, evaluate

import mlflow

VOCABULARY, LENGTH, BATCH = 96, 32, 4


class FromSlowStorage(Dataset):
    """Random tokens that take as long to come as a sample from a store on the network."""

    def __init__(self, read_ms):
        self.read_s = read_ms / 1000

    def __len__(self):
        return 100_000

    def __getitem__(self, at):
        time.sleep(self.read_s)
        ids = torch.randint(VOCABULARY, (LENGTH + 1,))
        return ids[:-1], ids[1:]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--read-ms", type=float, default=4.0, help="how long a sample takes to come")
    parser.add_argument("--workers", type=int, default=0)
    parser.add_argument("--log-every", type=int, default=1)
    parser.add_argument("--eval-every", type=int, default=5)
    parser.add_argument("--save-every", type=int, default=2)
    args = parser.parse_args()

    torch.manual_seed(1337)
    torch.set_num_threads(1)
    model = GPT(GPTConfig(vocab_size=VOCABULARY, block_size=LENGTH))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    train = DataLoader(FromSlowStorage(args.read_ms), batch_size=BATCH, num_workers=args.workers)
    held_out = [tuple(torch.randint(VOCABULARY, (2, BATCH, LENGTH)))] * 8
    mlflow.set_tracking_uri("sqlite:///four_waits.db")
    mlflow.set_experiment("four_waits")
    with mlflow.start_run(), tempfile.TemporaryDirectory() as folder:
        for step, (x, y) in zip(range(1, args.steps + 1), train, strict=False):
            loss = model(x, y)
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            optimizer.step()
            if step % args.log_every == 0:
                mlflow.log_metrics({"loss": loss.item()}, step=step)
            if step % args.eval_every == 0:
                evaluate(model, held_out, batches=8)
            if step % args.save_every == 0:
                state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": step}
                torch.save(state, f"{folder}/checkpoint.pt")
    print(f"{args.steps} steps, loss {loss.item():.3f}")


if __name__ == "__main__":
    main()
