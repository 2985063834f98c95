"""Plans: a query as a tree of frozen values, with functions that copy, draw and render the tree."""
