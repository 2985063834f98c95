"""Samples: a fixed number of rows drawn at random from other relations, and the estimates that they give."""
