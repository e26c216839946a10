"""How long verdicts took, and what was late."""

from hyperfsad.connect.deadlines import Latencies


def test_quantiles_are_values_that_were_measured() -> None:
    latencies = Latencies()
    assert latencies.quantiles() is None
    for number in range(1, 101):
        latencies.add(number / 100)
    assert latencies.quantiles() == {50: 0.51, 95: 0.96, 99: 1.0}
    assert (latencies.count, latencies.late) == (100, 0)


def test_late_is_what_takes_longer_than_the_deadline() -> None:
    latencies = Latencies(0.5)
    assert [latencies.add(seconds) for seconds in (0.4, 0.5, 0.51, 9.0)] == [
        False, False, True, True,
    ]  # fmt: skip
    assert (latencies.count, latencies.late) == (4, 2)
    assert not Latencies().is_over(1e6)
