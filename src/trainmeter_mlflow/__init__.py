"""MLflow adapter."""
