"""A stand-in for TensorFlow: its modules, names and event files, as far as tf.summary goes; no tensors."""

from tensorflow import summary as summary
