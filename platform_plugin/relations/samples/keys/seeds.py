"""Seeds: every random draw comes from a seed that is derived from what it is for, so that it can be made again."""

from __future__ import annotations

import hashlib

import numpy as np


def derive_seed(seed: int, *words: object) -> int:
    """A seed of 128 bits for one use of a sample's seed; other words give one that has nothing to do with it.

    >>> derive_seed(7, "segment", 1) == derive_seed(7, "segment", 1), derive_seed(7, "segment", 1) == derive_seed(7, "segment", 11)
    (True, False)
    """
    text = "\0".join([str(seed), *(f"{type(word).__name__}:{word}" for word in words)])
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=16).digest())


def random_generator(seed: int, *words: object) -> np.random.Generator:
    """The random numbers of one use of a seed."""
    return np.random.Generator(np.random.PCG64(derive_seed(seed, *words)))
