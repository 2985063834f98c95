"""Components: relations that a project declares in SQL, YAML or Python, and applying them to the lake."""
