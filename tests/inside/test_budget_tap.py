"""Without a budget given to tm, the goal is the framework's own, and is named as that."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace

import pytest

from trainmeter_core.inside.agent import Agent
from trainmeter_core.inside.taps import budget
from trainmeter_core.meter import Budget


def told(tmp_path):
    events = [json.loads(line) for file in Path(tmp_path).glob("*.jsonl") for line in file.read_text().splitlines()]
    return [(event["budget_steps"], event["budget_source"]) for event in events if event["type"] == "budget"]


@pytest.fixture
def agent(tmp_path):
    return Agent(str(tmp_path))


@pytest.mark.parametrize(
    ("max_steps", "source"),
    [(100, "transformers.TrainingArguments: max_steps"), (-1, "transformers.TrainingArguments: num_train_epochs")],
)
def test_a_trainer_of_transformers_tells_its_steps_less_those_of_the_checkpoint(tmp_path, agent, max_steps, source):
    module = pytest.importorskip("transformers.trainer_callback")
    original = module.CallbackHandler.on_train_begin
    undo = budget.install(module, agent)
    handler = module.CallbackHandler([], None, None, None, None)
    state = module.TrainerState(max_steps=100, global_step=40)
    control = handler.on_train_begin(SimpleNamespace(max_steps=max_steps), state, module.TrainerControl())
    undo()
    assert told(tmp_path) == [(60, source)]
    assert agent.publish()._budget == Budget("steps", 60.0)
    assert isinstance(control, module.TrainerControl)
    assert module.CallbackHandler.on_train_begin is original


@pytest.mark.parametrize(
    ("limits", "expected"),
    [
        ({"max_steps": 5, "max_epochs": 9}, (5, "lightning.Trainer: max_steps")),
        ({"max_epochs": 3, "accumulate_grad_batches": 2}, (9, "lightning.Trainer: max_epochs")),
    ],
)
def test_a_trainer_of_lightning_tells_the_earlier_of_its_limits(tmp_path, agent, limits, expected):
    pytest.importorskip("lightning.pytorch")
    torch = pytest.importorskip("torch")
    import lightning.pytorch as lightning
    from lightning.pytorch.loops import fit_loop

    class Module(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.layer = torch.nn.Linear(4, 1)

        def training_step(self, batch, _):
            return self.layer(batch).square().mean()

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), lr=0.1)

    undo = budget.install(fit_loop, agent)
    trainer = lightning.Trainer(
        **limits, accelerator="cpu", logger=False, enable_checkpointing=False, enable_progress_bar=False,
        enable_model_summary=False, default_root_dir=str(tmp_path),
    )  # fmt: skip
    trainer.fit(Module(), torch.utils.data.DataLoader(torch.randn(12, 4), batch_size=2))
    undo()
    assert told(tmp_path) == [expected]
    assert trainer.global_step == expected[0]


def test_a_goal_given_to_tm_stands(tmp_path, monkeypatch):
    monkeypatch.setenv("TRAINMETER_OPTIONS", json.dumps({"budget_tokens": 1000}))
    publishing = Agent(str(tmp_path)).publish()
    publishing.budget_found(Budget("steps", 5.0))
    assert publishing._budget == Budget("tokens", 1000.0)
