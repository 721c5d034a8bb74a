"""The counterfactual pipeline: abduction, action, prediction; checkpoints; execution."""
