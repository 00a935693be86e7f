"""What went wrong, as kind, message and hint: from texts, exit codes and exceptions."""
