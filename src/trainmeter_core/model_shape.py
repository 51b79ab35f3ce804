"""What the FLOPs formulas need: a model as its matmuls, attention cores, scans and tables, and the batch it is fed."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Iterator, Union

from .readings import Absent


@dataclass(frozen=True)
class Batch:
    """One training pass over `sequences` sequences of `seq_len` positions each, padding included.

    target_len: decoder positions per sequence of an encoder-decoder; 0 for every other model.
    documents: real lengths, over the whole batch, of the documents that attention keeps apart. It says both packing
        (several per sequence) and padding (shorter than the sequence); empty means one full document per sequence.
    target_documents: the same for the decoder of an encoder-decoder, in the order of `documents`.
    """

    sequences: int
    seq_len: int
    target_len: int = 0
    documents: tuple[int, ...] = ()
    target_documents: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if self.sequences < 1 or self.seq_len < 1 or self.target_len < 0:
            raise ValueError(f"a batch has at least one sequence of one position, not {self}")
        if sum(self.documents) > self.tokens or sum(self.target_documents) > self.sequences * self.target_len:
            raise ValueError("the documents of a batch hold more tokens than the batch")

    @property
    def tokens(self) -> int:
        """Positions of the (source) token stream, padding included: B*T."""
        return self.sequences * self.seq_len


@dataclass(frozen=True)
class Stream:
    """A run of positions that layers work on; `length` per sequence where the model fixes it, else None.

    is_seen: the length is that of a call which was seen, and holds for inputs of the same sizes.
    """

    name: str
    length: int | None = None
    is_seen: bool = False

    def is_known(self, batch: Batch) -> bool:
        """False for a stream whose length neither the model nor the batch tells, as a conv net's before its input."""
        return self.length is not None or self.name == "tokens" or (self.name == "target" and batch.target_len > 0)

    def padded(self, batch: Batch) -> int:
        """Positions per sequence, padding included: T."""
        if self.length is not None:
            return self.length
        return {"tokens": batch.seq_len, "target": batch.target_len}[self.name]

    def positions(self, batch: Batch) -> int:
        """Positions in the whole batch, padding included."""
        return batch.sequences * self.padded(batch)

    def lengths(self, batch: Batch) -> tuple[int, ...]:
        """The real length of each document in the batch."""
        documents = {"tokens": batch.documents, "target": batch.target_documents}.get(self.name, ())
        return documents or (self.padded(batch),) * batch.sequences

    def real(self, batch: Batch) -> int:
        """Positions in the whole batch, padding excluded as far as the batch tells it."""
        return sum(self.lengths(batch))


TOKENS = Stream("tokens")
BESIDE = Stream("pictures or sound")
TARGET = Stream("target")
SAMPLES = Stream("samples", 1)


@dataclass(frozen=True)
class Matmul:
    """`count` equal weights of `inputs` x `outputs`, each applied at every position of `stream`.

    role: `part.name`, for instance `attention.q`, `mlp.gate`, `experts.up`, `router.weight`, `head.weight`.
    experts, active: how many alternatives of each weight exist, and how many of them one position passes through.
    tied: the weight is another component's tensor (a head's is the token table), so it adds no parameters.
    trainable, input_grad: whether autograd needs the weight's and the input's gradient (one matmul each).
    A convolution is a matmul too: inputs = in_channels / groups * kernel size, at each output position.
    """

    role: str
    inputs: int
    outputs: int
    count: int = 1
    experts: int = 1
    active: int = 1
    stream: Stream = TOKENS
    bias: bool = False
    tied: bool = False
    trainable: bool = True
    input_grad: bool = True

    @property
    def part(self) -> str:
        return self.role.partition(".")[0]

    @property
    def weights(self) -> int:
        """Elements of all these weights, every expert included, biases excluded."""
        return self.inputs * self.outputs * self.count * self.experts

    @property
    def active_weights(self) -> int:
        """Elements that one position is multiplied with."""
        return self.inputs * self.outputs * self.count * self.active


@dataclass(frozen=True)
class AttentionCore:
    """`count` attention cores: scores = q k^T over `qk_width` = heads * head_dim, output = scores v over `v_width`.

    heads: query heads, or None where they are not visible; only a softmax count needs them.
    window: keys that one query sees at most, itself included; None is all of them.
    chunked: the window is a fixed tiling of the sequence instead of a sliding one.
    causal: None where it is not visible.
    q_grad, k_grad, v_grad: whether autograd needs the gradient of the queries, keys and values.
    """

    qk_width: int
    v_width: int
    heads: int | None = None
    kv_heads: int | None = None
    count: int = 1
    window: int | None = None
    chunked: bool = False
    causal: bool | None = True
    queries: Stream = TOKENS
    keys: Stream = TOKENS
    q_grad: bool = True
    k_grad: bool = True
    v_grad: bool = True

    @property
    def width_passes(self) -> int:
        """Widths times matmuls over them: scores forward, d(q) and d(k); output forward, d(v) and d(scores)."""
        scores = 1 + self.q_grad + self.k_grad
        output = 1 + self.v_grad + (self.q_grad or self.k_grad)
        return self.qk_width * scores + self.v_width * output

    def pairs(self, batch: Batch) -> int | Absent:
        """Query-key pairs that the mask lets through, in the whole batch, for one head of one layer."""
        if self.queries != self.keys:
            return sum(q * k for q, k in zip(self.queries.lengths(batch), self.keys.lengths(batch)))
        if self.causal is None:
            return Absent("whether the attention is causal is not visible in this model")
        return sum(many * self._pairs(length) for length, many in Counter(self.queries.lengths(batch)).items())

    def _pairs(self, n: int) -> int:
        if self.window is None:
            return n * (n + 1) // 2 if self.causal else n * n
        if self.chunked:
            full, rest = divmod(n, self.window)
            return full * self.window * (self.window + 1) // 2 + rest * (rest + 1) // 2
        if self.causal:
            w = min(n, self.window)
            return w * (w + 1) // 2 + (n - w) * w
        side = min(self.window // 2, n - 1)  # a two-sided window holds `window // 2` keys to the left and the right
        return n * (2 * side + 1) - side * (side + 1)


@dataclass(frozen=True)
class Scan:
    """`count` recurrences (SSM, linear attention): `flops` forward FLOPs at one position, by the formula named."""

    role: str
    flops: int
    formula: str
    count: int = 1
    stream: Stream = TOKENS
    grad: bool = True


@dataclass(frozen=True)
class Lookup:
    """`count` tables of `rows` x `width` that are only read from; role `token`, `position`, `other` or `beside`."""

    role: str
    rows: int
    width: int
    count: int = 1

    @property
    def weights(self) -> int:
        return self.rows * self.width * self.count


Component = Union[Matmul, AttentionCore, Scan, Lookup]


@dataclass(frozen=True)
class ModelShape:
    """A model as its components; equal layers are one component with a count.

    parameters: elements of all parameters, shared tensors once.  trainable_parameters: those with a gradient.
    norm_bias_parameters: of norms and biases.  width, layers: d and L of the main stack.
    family: the config's model_type, or the class.
    main_input: elements per sample of the tensor that Hugging Face counts, where it is not one per token (pixels);
    Absent when that is not known.
    padded_vocabulary: rows of the head after padding for tensor parallelism, where they are not the head's own; or 0.
    beside_parameters: of an encoder of pictures or sound beside the text, whose positions a batch does not tell.
    gap: why the components are not all known; empty when they are. Counts that need only the parameters still hold.
    """

    components: tuple[Component, ...]
    parameters: int | Absent
    trainable_parameters: int | Absent
    norm_bias_parameters: int | Absent
    width: int | Absent
    layers: int | Absent
    family: str = ""
    main_input: int | Absent = 0
    padded_vocabulary: int = 0
    beside_parameters: int = 0
    gap: str = ""

    @property
    def matmuls(self) -> tuple[Matmul, ...]:
        return tuple(c for c in self.components if isinstance(c, Matmul))

    @property
    def cores(self) -> tuple[AttentionCore, ...]:
        return tuple(c for c in self.components if isinstance(c, AttentionCore))

    @property
    def scans(self) -> tuple[Scan, ...]:
        return tuple(c for c in self.components if isinstance(c, Scan))

    @property
    def lookups(self) -> tuple[Lookup, ...]:
        return tuple(c for c in self.components if isinstance(c, Lookup))

    @property
    def token_lookup_parameters(self) -> int:
        return sum(table.weights for table in self.lookups if table.role == "token")

    @property
    def position_lookup_parameters(self) -> int:
        return sum(table.weights for table in self.lookups if table.role == "position")

    @property
    def lookup_parameters(self) -> int:
        """Elements of all tables, a table shared with the head included."""
        return sum(table.weights for table in self.lookups)

    @property
    def main_matmuls(self) -> tuple[Matmul, ...]:
        """The matmuls but those of an encoder beside the text."""
        return tuple(m for m in self.matmuls if m.stream != BESIDE)

    @property
    def main_parameters(self) -> int | Absent:
        """Elements that one position of the text passes through, tables and active experts included."""
        if isinstance(self.parameters, Absent):
            return self.parameters
        return self.parameters - self.beside_parameters - self.inactive_parameters

    @property
    def main_lookup_parameters(self) -> int:
        """Elements of the tables of the text."""
        return sum(table.weights for table in self.lookups if table.role != "beside")

    @property
    def inactive_parameters(self) -> int:
        """Elements of the experts that one position does not pass through, their biases included."""
        return sum((m.inputs + m.bias) * m.outputs * m.count * (m.experts - m.active) for m in self.matmuls)

    @property
    def tied(self) -> bool:
        """True when the head is a lookup table's own tensor."""
        return any(m.tied and m.part == "head" for m in self.matmuls)

    def batch_seen(self, sequences: int, seq_len: int, target_len: int = 0) -> Batch | Absent:
        """The batch of a call: one without a length (images) fits a model whose streams have lengths of their own."""
        if seq_len:
            return Batch(sequences, seq_len, target_len)
        unknown = [stream for stream in self.streams() if stream.length is None and stream != TARGET]
        if TOKENS in unknown:
            return Absent("the batches have no sequence length, on which this model's FLOPs depend")
        if unknown:
            return Absent(f"the number of positions of {unknown[0].name} is not known")
        return Batch(sequences, 1, target_len)

    def streams(self) -> Iterator[Stream]:
        """Each stream once, in the order of the components."""
        yield from dict.fromkeys(
            stream
            for c in self.components
            if not isinstance(c, Lookup)
            for stream in ((c.queries, c.keys) if isinstance(c, AttentionCore) else (c.stream,))
        )
