"""What the quality benchmark and the ablation share: sets, methods, measuring, results, tables, a plot."""
