"""Reading views: the stored result, or the states merged with unconsumed rows, at one snapshot."""
