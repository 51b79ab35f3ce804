"""The public names, bound when this is imported, as TensorFlow's own api module binds them."""

from tensorflow.python.ops.summary_ops_v2 import create_file_writer_v2 as create_file_writer
from tensorflow.python.ops.summary_ops_v2 import flush, scalar

__all__ = ["create_file_writer", "flush", "scalar"]
