"""The demo, the baselines, and the paper's tables."""
