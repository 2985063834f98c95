"""Reading views: stored state and rows that no run has consumed, merged at one snapshot."""
