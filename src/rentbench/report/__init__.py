"""The reader's side: results in, static site out."""
