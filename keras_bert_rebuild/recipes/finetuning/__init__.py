"""Fine-tuning and prediction as one call each."""
