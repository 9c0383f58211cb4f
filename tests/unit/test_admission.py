"""Whether a server has taken a viewer's key back, from what its connections say."""

from __future__ import annotations

from unilab_metrics.subscribe.welcome import Admission
from unilab_metrics.transport.diagnosis import Finding


def test_a_refusal_holds_over_the_connections_that_have_not_said_anything_yet():
    admission = Admission()
    assert not admission.refuses(Finding.NO_ANSWER)
    assert admission.refuses(Finding.REFUSED)
    assert admission.refuses(Finding.NO_ANSWER)
    assert admission.refuses(Finding.REFUSED)
    assert not admission.refuses(Finding.WELCOME)
    assert not admission.refuses(Finding.NO_ANSWER)


def test_a_server_that_is_slow_or_gone_does_not_refuse():
    admission = Admission()
    # A stopped aggregator breaks handshakes off, as another run's would.
    assert not admission.refuses(Finding.OTHER_SERVER)
    assert admission.refuses(Finding.REFUSED)
    assert not admission.refuses(Finding.NOBODY_LISTENS)
