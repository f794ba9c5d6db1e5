"""A plug-in of each kind: a rule, a bias, a provider, a moderator and a store."""
