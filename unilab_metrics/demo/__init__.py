"""A real training job, small enough for a laptop's CPU: SAC on a cart that balances a pole.

Each rank is two processes. The collector (``collector.py``, NumPy only) steps the
environment; the learner (``learner.py``, torch) owns the policy and serves its actions.
Between them lie an inference slot (``inference.py``) and a bounded ingress ring
(``ingress.py``) in shared memory; metrics never take that way: every process publishes its
own. ``train.py`` is one rank, ``launch.py`` starts several and owns the terminal.
"""
