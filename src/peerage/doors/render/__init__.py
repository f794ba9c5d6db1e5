"""Tables for terminals and pipes, pages from templates, and the wording of both."""
