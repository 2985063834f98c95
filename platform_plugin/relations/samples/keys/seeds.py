"""Seeds: the seed and the generator of each random draw, derived from the sample's seed and the draw's purpose."""

from __future__ import annotations

import hashlib

import numpy as np


def derive_seed(seed: int, *words: object) -> int:
    """A seed of 128 bits for one use of a sample's seed; seeds for different `words` are independent.

    >>> derive_seed(7, "segment", 1) == derive_seed(7, "segment", 1), derive_seed(7, "segment", 1) == derive_seed(7, "segment", 11)
    (True, False)
    """
    text = "\0".join([str(seed), *(f"{type(word).__name__}:{word}" for word in words)])
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=16).digest())


def random_generator(seed: int, *words: object) -> np.random.Generator:
    """The generator of random numbers for one use of a seed."""
    return np.random.Generator(np.random.PCG64(derive_seed(seed, *words)))
