"""Waiting in front of several servers, without batching."""

from __future__ import annotations


def erlang_b(servers: int, offered: float) -> float:
    """Return the share of arrivals that find all servers of M/G/c/c busy, and are lost.

    Source: Erlang 1917, by its stable recursion (Kleinrock, Queueing Systems I, 3.5).
    """
    loss = 1.0
    for k in range(1, servers + 1):
        loss = offered * loss / (k + offered * loss)
    return loss


def erlang_c(servers: int, offered: float) -> float:
    """Return the share of arrivals that find all servers of M/M/c busy; 1 from full load (in erlangs) on.

    Source: as of `erlang_b`, from which it follows.
    """
    if offered >= servers:
        return 1.0
    loss = erlang_b(servers, offered)
    share = offered / servers
    return loss / (1 - share * (1 - loss))


def waiting_seconds(
    *, rate: float, service: float, servers: int, arrival_scv: float, service_scv: float
) -> float | None:
    """Return the mean seconds a customer waits in G/G/c, None when the servers cannot keep up.

    `rate` is per second, `service` in seconds; the squared coefficients of variation are ratios. Exact for
    M/G/1. Source: the Allen-Cunneen approximation (Allen, Probability, Statistics, and Queueing Theory, 2nd
    ed.).
    """
    offered = rate * service
    if offered >= servers:
        return None
    markov = erlang_c(servers, offered) * service / (servers - offered)
    return markov * (arrival_scv + service_scv) / 2
