"""What a load test measured: answers, blocks, estimates with their uncertainty, knee and crossover."""
