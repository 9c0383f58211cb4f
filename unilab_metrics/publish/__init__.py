"""What runs inside a training process: values to frames, frames to the spool, spool to the bus.

``publisher`` is the public object; ``log()`` converts (``scalars``), finds the layout of the
key set (``layouts``), and appends one record to the ``spool``. ``shipper``, the only thread of
ours in a training process, sends the spool's bytes as ``delivery`` says.
"""
