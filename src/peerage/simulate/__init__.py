"""Reviews and opinions whose truth is known: what a detector is tried on before it is believed."""
