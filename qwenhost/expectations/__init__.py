"""What should be: data files, joined with what an inventory declares, each value with its origin."""
