"""What every part shares: documents, schemas, statistics, identifiers. No torch, no Docker, no pandas."""
