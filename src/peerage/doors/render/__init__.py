"""What people see: tables for terminals and pipes, pages by templates, and the words of both."""
