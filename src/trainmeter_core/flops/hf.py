"""`hf`: what Hugging Face's Trainer adds to `total_flos`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trainmeter_core.readings import Absent

from .terms import Convention, Term, Terms

if TYPE_CHECKING:
    from trainmeter_core.model_shape import Batch, ModelShape


def hf(shape: ModelShape, batch: Batch) -> Terms:
    """6 * elements of the main input * (N - N_e), N_e the weights of every nn.Embedding.

    Counts norms, biases, frozen weights, all experts and padding. Leaves out attention, and a tied head: the shared
    tensor bears the table's name and goes with it. An encoder-decoder's inputs are the source tokens times all
    weights; an image's are its pixels.
    Distance: torchtitan - hf = 12 L H h T per token on an untied dense decoder.
    Source: transformers 5.24.0, `trainer.py` floating_point_ops and `modeling_utils.py` num_parameters.
    """
    if isinstance(shape.parameters, Absent):
        return shape.parameters
    if isinstance(shape.main_input, Absent):
        return shape.main_input
    inputs = batch.sequences * shape.main_input if shape.main_input else batch.tokens
    matmuls = sum(m.weights for m in shape.matmuls if not m.tied)
    rest = shape.parameters - shape.lookup_parameters - matmuls
    what = "elements of the main input"
    terms = [
        Term("matmul weights", f"6 * {inputs} {what} * {matmuls} weights", 6 * inputs * matmuls),
        Term("norms, biases and other parameters", f"6 * {inputs} {what} * {rest} parameters", 6 * inputs * rest),
        Term("lookup tables", "0 * every nn.Embedding", 0),
    ]
    if shape.tied:
        terms.append(Term("head", "0 * the head, which is a lookup table's own tensor", 0))
    return terms


CONVENTION = Convention(
    "hf",
    "6 * input elements * parameters outside embeddings; no attention, a tied head dropped",
    "transformers 5.24.0, trainer.py floating_point_ops",
    hf,
)
