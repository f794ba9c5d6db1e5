"""Tables of reviews whose truth is known: what an audit is tried on before it is believed."""
