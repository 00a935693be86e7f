"""Images: what they are made from, how they are built, and what the engine holds of them."""
