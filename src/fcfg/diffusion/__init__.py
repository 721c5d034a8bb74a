"""The image model: noise schedule, conditioning, networks, and what a denoiser predicts."""
