"""What a person or a client sees: thin doors onto the floors below."""
