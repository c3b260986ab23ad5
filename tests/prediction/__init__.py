"""A benchmark of predictions: configurations and loads on a real Triton, each predicted from another one's window.

Points are drawn from a seed in groups; within a group everything but the settings that vary is the same. Server and
predictor get the same seeded arrivals. Times are the server's own: its counters, and its traces of every request.
A second part compares what the search suggests from one recorded window with a sweep of the same settings.

    python -m tests.prediction run --folder .bench-prediction --parallel 4 --budget 20
    python -m tests.prediction score .bench-prediction

A third part needs no Triton: `engines` predicts recordings of a real engine from those of another setting or load.

    python -m tests.prediction engines
"""
