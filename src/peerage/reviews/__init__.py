"""What biases and boards share: reviews put on one scale, and how far each one departs from it."""
