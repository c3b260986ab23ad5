"""A benchmark of diagnoses: incidents drawn at random, recorded from a real Triton, labelled by what helped.

Topology, names, rates, service times, instance counts and traffic are drawn from a seed. Every configuration shape also
occurs under a load at which it is harmless, so that configuration alone gives nothing away. Where two causes compete,
each candidate change is tried on the same load, and the label is the change that helped most.

    python -m tests.benchmark record --count 24 --seed 1 --out FOLDER
    python -m tests.benchmark score FOLDER
"""
