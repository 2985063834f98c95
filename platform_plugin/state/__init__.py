"""State: what runs keep between them, and the changes of relations that they consume."""
