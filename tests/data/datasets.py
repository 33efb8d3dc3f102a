"""Datasets for the tests of workers, in a module that a spawned worker can import."""

import mmap
import os
import random
import signal
import time

import numpy as np
from library import torch

LARGE = 40_000  # floats: more than travels in a pickle


class Images(torch.utils.data.Dataset):
    """Large and small tensors."""

    def __init__(self, n=8):
        self.n = n

    def __len__(self):
        return self.n

    def __getitem__(self, index):
        return torch.full((LARGE,), float(index)), index


class Function(torch.utils.data.Dataset):
    """Samples that a function makes."""

    def __init__(self, function, n):
        self.function = function
        self.n = n

    def __len__(self):
        return self.n

    def __getitem__(self, index):
        return self.function(index)


class Board:
    """A few numbers in memory that forked workers share with the test."""

    def __init__(self):
        self.memory = mmap.mmap(-1, 64)

    def __getitem__(self, place):
        return self.memory[place]

    def __setitem__(self, place, number):
        self.memory[place] = number

    def wait(self, place, number):
        """Wait until a place holds a number."""
        until(lambda: self.memory[place] == number)


def until(condition, seconds=30):
    """Wait for a condition; the limit is for machines that hardly move."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.005)


def is_gone(pid):
    """Whether a process has ended; one that nobody has waited for yet counts as ended."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rsplit(")", 1)[1].split()[0] == "Z"
    except OSError:
        return True


def random_numbers(index):
    """One number of every default generator."""
    info = torch.utils.data.get_worker_info()
    drawn = (torch.rand(()).item(), random.random(), float(np.random.rand()))
    return (info.id, info.seed, *drawn)


def own_pid(index):
    return os.getpid()


def kill_self(index):
    if index == 2:
        os.kill(os.getpid(), signal.SIGKILL)
    return index


def exit_self(index):
    if index == 2:
        os._exit(7)
    return index


def raise_at_three(index):
    if index == 3:
        raise ValueError("three is bad")
    return index
