"""Settings of PyTorch's compiler. They can be set, and have no effect."""

activation_memory_budget = 1.0
memory_budget_pareto_dir = None
visualize_memory_budget_pareto = False
