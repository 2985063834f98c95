"""Components: what a project declares in SQL files, YAML and decorators, and how the lake is made to agree."""
