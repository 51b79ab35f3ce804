"""Names of number formats, as torch and people write them, to the columns of the peak table."""

from __future__ import annotations

from trainmeter_core.readings import Absent

COLUMNS = ("fp32", "tf32", "bf16", "fp16", "fp8", "fp4", "int8")

_COLUMN_OF = {
    **{column: column for column in COLUMNS},
    "bfloat16": "bf16",
    "float16": "fp16",
    "half": "fp16",
    "float32": "fp32",
    "float": "fp32",
    "float8_e4m3fn": "fp8",
    "float8_e4m3fnuz": "fp8",
    "float8_e5m2": "fp8",
    "float8_e5m2fnuz": "fp8",
    "float4_e2m1fn_x2": "fp4",
    "nvfp4": "fp4",
    "mxfp4": "fp4",
    "mxfp8": "fp8",
    "uint8": "int8",
}


def column_of(dtype: str, *, allow_tf32: bool = False) -> str | Absent:
    """The table's column for `dtype` ("torch.bfloat16", "bf16", "float8_e4m3fn" …).

    float32 is "tf32" where matmuls may use it (`allow_tf32`), else "fp32". A format with no column is Absent.
    """
    column = _COLUMN_OF.get(dtype.strip().lower().removeprefix("torch."))
    if column is None:
        return Absent(f"no peak is listed for the number format {dtype!r}")
    return "tf32" if column == "fp32" and allow_tf32 else column
