"""Keys of samples: a random number for each row, the same for everybody, and the rows whose keys are lowest."""
