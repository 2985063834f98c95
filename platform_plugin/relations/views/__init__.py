"""Views: plain views, and continuous views with their states, maintenance and stored results."""
