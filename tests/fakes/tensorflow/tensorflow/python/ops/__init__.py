"""As in TensorFlow, where the implementation lives."""
