from __future__ import annotations

from diagnostics.service.peers import Peers, peer_of


def peers(*names: str) -> Peers[str]:
    made: Peers[str] = Peers()
    for port, name in enumerate(names):
        made.came(("192.0.2.1", port), name)
    return made


def test_the_longest_idle_stranger_gives_way_first_and_whoever_was_admitted_last() -> None:
    made = peers("a", "b", "c", "d")
    made.requested(("192.0.2.1", 0), admitted=True)
    made.requested(("192.0.2.1", 1), admitted=False)
    assert made.give_way(2) == ["c", "d"]
    assert made.give_way(0) == ["b", "a"]
    assert len(made) == 0


def test_a_wrong_password_later_does_not_make_a_stranger_of_whoever_was_admitted() -> None:
    made = peers("a", "b")
    made.requested(("192.0.2.1", 0), admitted=True)
    made.requested(("192.0.2.1", 0), admitted=False)
    assert made.give_way(1) == ["b"]


def test_a_port_that_is_used_again_is_another_connection() -> None:
    made = peers("a", "b")
    made.requested(("192.0.2.1", 0), admitted=True)
    made.came(("192.0.2.1", 0), "later")
    assert made.give_way(0) == ["b", "later"]


def test_what_ended_by_itself_is_forgotten_and_a_peer_that_never_came_is_not_made_up() -> None:
    made = peers("a", "b")
    made.forget(lambda name: name == "a")
    made.requested(("192.0.2.9", 1), admitted=True)
    assert made.give_way(0) == ["b"]


def test_an_address_is_the_same_through_a_socket_of_ipv6() -> None:
    assert peer_of(("::ffff:192.0.2.1", 5, 0, 0)) == peer_of(("192.0.2.1", 5)) == ("192.0.2.1", 5)
    assert peer_of(("2001:db8::1", 5, 0, 0)) == ("2001:db8::1", 5)
