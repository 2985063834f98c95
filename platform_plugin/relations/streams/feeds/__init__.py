"""Feeds: how a stream takes rows from files, topics and tables, each once, and keeps apart what does not fit."""
