"""What every part shares: documents, schemas, statistics, identifiers. Light: no torch, no Docker, no pandas."""
