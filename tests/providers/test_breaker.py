"""An endpoint that only fails is left alone, and probed again after a while."""

from peerage.providers.breaker import FIRST_PAUSE_S, MAX_FAILURES, Breaker


def broken(now=0.0):
    breaker = Breaker()
    for _ in range(MAX_FAILURES):
        assert breaker.refusal(now) is None
        breaker.fail("timeout", "no reply", now)
    return breaker


def test_a_few_failures_in_a_row_open_it_and_the_reason_is_kept():
    assert "no reply" in broken().refusal(0.0)


def test_after_a_pause_one_call_is_the_probe_and_a_success_closes_it():
    breaker = broken()
    assert breaker.refusal(FIRST_PAUSE_S) is None
    assert breaker.refusal(FIRST_PAUSE_S) is not None
    breaker.succeed()
    assert breaker.refusal(FIRST_PAUSE_S) is None
    breaker.fail("timeout", "once more", FIRST_PAUSE_S)
    assert breaker.refusal(FIRST_PAUSE_S) is None


def test_a_probe_that_fails_doubles_the_pause():
    breaker = broken()
    assert breaker.refusal(FIRST_PAUSE_S) is None
    breaker.fail("connection", "refused", FIRST_PAUSE_S)
    assert breaker.refusal(2.9 * FIRST_PAUSE_S) is not None
    assert breaker.refusal(3 * FIRST_PAUSE_S) is None


def test_a_probe_that_is_called_off_leaves_room_for_another():
    breaker = broken()
    assert breaker.refusal(FIRST_PAUSE_S) is None
    breaker.give_up()
    assert breaker.refusal(FIRST_PAUSE_S) is None


def test_what_is_not_the_endpoints_fault_is_no_sign():
    breaker = Breaker()
    for kind in ("refused", "rate_limited", "bad_request", "budget") * MAX_FAILURES:
        breaker.fail(kind, "", 0.0)
    assert breaker.refusal(0.0) is None


def test_a_success_in_between_begins_the_count_anew():
    breaker = Breaker()
    for _ in range(3 * MAX_FAILURES):
        breaker.fail("timeout", "", 0.0)
        breaker.succeed()
    assert breaker.refusal(0.0) is None
