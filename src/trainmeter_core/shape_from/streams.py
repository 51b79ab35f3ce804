"""Which positions each module works on: tokens, a decoder's targets, patches, audio frames, one per sample."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Iterable, Mapping, NamedTuple, Sequence

from trainmeter_core.model_shape import BESIDE, SAMPLES, TARGET, TOKENS, Stream

from .config_facts import first_of, text_config
from .roles import Entry, parts_of

if TYPE_CHECKING:
    from .looked import Look

CROSS_ATTENTION = frozenset(
    ("EncDecAttention", "encoder_attn", "crossattention", "cross_attn", "cross_attention", "multihead_attn")
)
# Encoders, whose attention is causal only where their config says `is_decoder`.
_BIDIRECTIONAL = (
    *("bert", "bert-generation", "big_bird", "camembert", "convbert", "data2vec-text", "deberta", "deberta-v2", "deit"),
    *("dinov2", "distilbert", "electra", "ernie", "esm", "eurobert", "fnet", "gte", "ijepa", "jina_embeddings_v3"),
    *("layoutlm", "megatron-bert", "mobilebert", "modernbert", "mpnet", "nomic_bert", "rembert", "roberta"),
    *("roberta-prelayernorm", "roc_bert", "roformer", "squeezebert", "tapas", "vit", "vit_mae", "xlm-roberta"),
    *("xlm-roberta-xl", "xmod", "yoso"),
)
BIDIRECTIONAL = frozenset(_BIDIRECTIONAL)
# Model types that compute something beside what their modules and config show, each with what that is.
UNSEEN = {
    "albert": "layers that share their weights run more often than they are stored",
    "big_bird": "its sparse attention is not counted",
    "bigbird_pegasus": "its sparse attention is not counted",
    "deepseek_v32": "which keys its sparse attention picks is not known",
    "deepseek_v4": "its compressed attention is not counted",
    "diffllama": "its differential attention is not counted",
    "funnel": "its layers shorten the sequence by a number that is not known",
    "gemma3n": "its layers share keys and values and run on several streams",
    "gemma3n_text": "its layers share keys and values and run on several streams",
    "glm_moe_dsa": "which keys its sparse attention picks is not known",
    "led": "its sparse attention is not counted",
    "longformer": "its sparse attention is not counted",
    "longt5": "its blockwise attention is not counted",
    "mimo_v2_flash": "its windowed layers have heads of their own number and width",
    "mra": "its sparse attention is not counted",
    "reformer": "its hashed attention is not counted",
    "kimi_linear": "the recurrence of its linear attention is not counted",
    "xlstm": "its recurrence is not counted",
    "zamba": "layers that share their weights run more often than they are stored",
    "zamba2": "layers that share their weights run more often than they are stored",
    "xlnet": "its attention over positions beside the tokens is not counted",
}
# Classifiers that see one vector per sample. `score` of decoders is not among them: it runs over every token.
ONE_PER_SAMPLE = frozenset(("pooler", "seq_relationship", "pre_classifier"))
POOLER, NOTHING = frozenset(("pooler",)), frozenset("")
NOT_RUN = frozenset(("contact_head",))  # ESM's, for an output that training does not ask for
SAMPLE_CLASSES = ("ForSequenceClassification", "ForImageClassification", "ForMultipleChoice")
EXTRA_PATCHES = {"vit": 1, "dinov2": 1, "ijepa": 0, "deit": 2}
BESIDE_THE_TEXT = frozenset(
    (
        "vision_tower",
        "vision_model",
        "vision_encoder",
        "vision_backbone",
        "visual",
        "multi_modal_projector",
        "mm_projector",
        "embed_vision",
        "image_newline",
        "audio_tower",
        "embed_audio",
        "connector",
    )
)


class Layout(NamedTuple):
    """main: of modules outside an encoder.  encoder: of an encoder's, None when there is none beside the main one.

    patch: of the convolution that cuts an image up.  frames: of a sound's first convolution.
    beside: whether there is an encoder of pictures or sound beside the text.
    causal: of the main attention, None when not visible.  main_input: elements per sample that Hugging Face counts.
    gap: why the streams cannot be told apart; empty when they can.
    look: where the streams are those that a call showed.
    unread: modules that run, and of which the loss does not read the output.
    """

    main: Stream = TOKENS
    encoder: Stream | None = None
    patch: Stream | None = None
    frames: Stream | None = None
    causal: bool | None = None
    main_input: int = 0
    classes: bool = False
    beside: bool = False
    gap: str = ""
    look: Look | None = None
    unread: frozenset[str] = frozenset()


def layout_of(
    config: Mapping[str, Any], class_name: str, *, known_decoder: bool, entries: Iterable[Entry] = ()
) -> Layout:
    """The streams of a model by its config, the name of its class and cross-attention among its modules."""
    kind = str(config.get("model_type") or "")
    if kind in UNSEEN:
        return Layout(gap=UNSEEN[kind])
    if config.get("relative_attention"):  # DeBERTa
        return Layout(gap="its attention to relative positions is not counted")
    if config.get("is_encoder_decoder"):
        return _encoder_decoder(config)
    nested = [name for name in ("vision_config", "audio_config", "encoder", "decoder") if name in config]
    if nested and text_config(config) is not None and class_name.endswith(("ForConditionalGeneration", "ForCausalLM")):
        return Layout(causal=True, beside=True)
    if nested:
        return Layout(gap="how many positions its pictures or sounds take in a batch is not visible")
    if first_of(config, "patch_size") and first_of(config, "image_size") and kind in EXTRA_PATCHES:
        return _image(config, kind)
    if "patch_size" in config or "num_mel_bins" in config:
        return Layout(gap=f"how many positions a sample of model type {kind!r} takes is not known")
    causal: bool | None = None
    if kind in BIDIRECTIONAL:
        causal = bool(config.get("is_decoder"))
    elif isinstance(config.get("causal"), bool):  # XLM and Flaubert
        causal = bool(config["causal"])
    elif known_decoder or class_name.endswith(("ForCausalLM", "LMHeadModel")):
        causal = True
    elif class_name.endswith("ForMaskedLM"):
        causal = False
    if any(CROSS_ATTENTION.intersection(parts_of(entry)) for entry in entries):
        return Layout(TARGET, TOKENS, causal=causal)
    unread = POOLER if class_name.endswith("ForMaskedLM") else NOTHING
    return Layout(causal=causal, unread=unread, classes=class_name.endswith(SAMPLE_CLASSES) and kind in BIDIRECTIONAL)


def _encoder_decoder(config: Mapping[str, Any]) -> Layout:
    positions, mels = first_of(config, "max_source_positions"), first_of(config, "num_mel_bins")
    if mels and positions and config.get("model_type") == "whisper":
        frames = Stream("frames", 2 * positions)  # the second convolution has a stride of two
        audio = Stream("audio", positions)
        return Layout(TARGET, audio, frames=frames, causal=True, main_input=mels * 2 * positions)
    if mels:
        return Layout(gap="how many positions a sound takes is not known for this model")
    return Layout(TARGET, TOKENS, causal=True)


def _image(config: Mapping[str, Any], kind: str) -> Layout:
    side = config["image_size"] // config["patch_size"]
    patches, channels = side * side, first_of(config, "num_channels") or 3
    return Layout(
        Stream("patches", patches + EXTRA_PATCHES[kind]),
        patch=Stream("patches of the image", patches),
        causal=False,
        main_input=channels * config["image_size"] ** 2,
        classes=True,
    )


def stream_of(parts: Sequence[str], role: str, layout: Layout) -> Stream:
    """The stream of a matmul by the parts of its module's name and its role."""
    if ONE_PER_SAMPLE.intersection(parts) or (layout.classes and "classifier" in parts):
        return SAMPLES
    if layout.beside and BESIDE_THE_TEXT.intersection(parts):
        return BESIDE
    if layout.encoder is None:
        return layout.main
    if CROSS_ATTENTION.intersection(parts):
        return layout.encoder if role in ("attention.k", "attention.v") else layout.main
    return layout.encoder if "encoder" in parts else layout.main


def conv_stream(parts: Sequence[str], layout: Layout) -> Stream | None:
    """The output positions of a convolution, or None where they are not visible."""
    if layout.beside and BESIDE_THE_TEXT.intersection(parts):
        return BESIDE
    if any("patch" in part for part in parts):
        return layout.patch
    if parts and (
        parts[-1] == "conv1d" or parts[-2:] == ["conv", "conv"]
    ):  # the causal convolution in front of a scan, one output per position
        return layout.main
    if layout.frames is not None and "encoder" in parts:
        return layout.frames if parts[-1] == "conv1" else layout.encoder
    return None
