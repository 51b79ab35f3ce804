"""Megatron-Core's GPT by its own schedules on gloo, two micro-batches: tensor and pipeline ranks, or its own optimizer."""

import contextlib
import sys
import warnings

import torch
import torch.distributed as dist

warnings.simplefilter("ignore")
torch.set_num_threads(1)


class OnCpu(torch.overrides.TorchFunctionMode):
    """Megatron-Core names the GPU in a few places."""

    def __torch_function__(self, function, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        return function(*args, **({**kwargs, "device": "cpu"} if kwargs.get("device") == "cuda" else kwargs))


torch.cuda.current_device = lambda: torch.device("cpu")
torch.cuda.synchronize = torch.cuda.Stream = torch.cuda.current_stream = lambda *_, **__: None
kind_of = torch.Tensor.type
torch.Tensor.type = lambda self, *to: kind_of(self, *to) if to else "torch.cuda." + kind_of(self).rpartition(".")[2]
OnCpu().__enter__()

from megatron.core import parallel_state  # noqa: E402 - without a GPU as of here
from megatron.core.distributed import (  # noqa: E402
    DistributedDataParallel,
    DistributedDataParallelConfig,
    finalize_model_grads,
)
from megatron.core.models.gpt.gpt_layer_specs import get_gpt_layer_local_spec  # noqa: E402
from megatron.core.models.gpt.gpt_model import GPTModel  # noqa: E402
from megatron.core.optimizer import OptimizerConfig, get_megatron_optimizer  # noqa: E402
from megatron.core.pipeline_parallel.schedules import get_forward_backward_func  # noqa: E402
from megatron.core.tensor_parallel import random  # noqa: E402
from megatron.core.transformer.module import Float16Module  # noqa: E402
from megatron.core.transformer.transformer_config import TransformerConfig  # noqa: E402

tensor, pipeline = map(int, sys.argv[1:3])
dtype = torch.bfloat16 if sys.argv[3:] == ["bf16"] else torch.float32
random.get_cuda_rng_tracker().fork = lambda *_: contextlib.nullcontext()
dist.init_process_group("gloo")
parallel_state.initialize_model_parallel(tensor_model_parallel_size=tensor, pipeline_model_parallel_size=pipeline)
torch.manual_seed(0)
config = TransformerConfig(
    num_layers=2, hidden_size=32, num_attention_heads=4, hidden_dropout=0.0, attention_dropout=0.0,
    use_cpu_initialization=True, pipeline_dtype=dtype, params_dtype=dtype, bf16=dtype == torch.bfloat16, tensor_model_parallel_size=tensor,
    pipeline_model_parallel_size=pipeline, bias_dropout_fusion=False, masked_softmax_fusion=False,
    gradient_accumulation_fusion=False, deallocate_pipeline_outputs=True, batch_p2p_comm=False,
)  # fmt: skip
first, last = parallel_state.is_pipeline_first_stage(), parallel_state.is_pipeline_last_stage()
model = GPTModel(
    config, get_gpt_layer_local_spec(), vocab_size=64, max_sequence_length=16, pre_process=first, post_process=last
)
if config.bf16:
    # Its optimizer holds this rank's share of the weights, in float32.
    sharded = DistributedDataParallelConfig(use_distributed_optimizer=True, overlap_grad_reduce=False)
    model = DistributedDataParallel(config, sharded, Float16Module(config, model))
    config.finalize_model_grads_func = finalize_model_grads
    settings = OptimizerConfig(lr=1e-3, bf16=True, params_dtype=dtype, use_distributed_optimizer=True)
    optimizer = get_megatron_optimizer(settings, [model])
    config.grad_scale_func = optimizer.scale_loss
else:
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
draw = torch.Generator().manual_seed(parallel_state.get_data_parallel_rank())
mask = torch.triu(torch.ones(16, 16, dtype=torch.bool), 1)[None, None]
positions = torch.arange(16).expand(4, -1)


def forward_step(batches, model):
    ids = next(batches)
    inputs, targets = ids[:, :-1].contiguous(), ids[:, 1:].contiguous()
    output = model(inputs if first else None, positions, mask, labels=targets if last else None)
    return output, lambda output: (output.mean(), {"loss": output.mean().detach()})


for step in range(6):
    if config.bf16:
        model.zero_grad_buffer()
    losses = get_forward_backward_func()(
        forward_step_func=forward_step, model=[model], num_microbatches=2, seq_length=16, micro_batch_size=4,
        data_iterator=iter([torch.randint(0, 64, (4, 17), generator=draw) for _ in range(2)]), forward_only=False,
    )  # fmt: skip
    for parameter in model.parameters():
        if parameter.grad is not None:
            dist.all_reduce(parameter.grad, group=parallel_state.get_data_parallel_group())
    optimizer.step()
    optimizer.zero_grad()
    if dist.get_rank() == dist.get_world_size() - 1:  # of the last stage
        print(step, losses[0]["loss"].item(), flush=True)
dist.barrier()
dist.destroy_process_group()
