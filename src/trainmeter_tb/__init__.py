"""TensorBoard adapter."""
