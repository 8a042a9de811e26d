"""What the comparisons with PyTorch share."""

import unittest

import torch


def largest(*tensors):
    return max((x.abs().max().item() for x in tensors if x is not None and x.numel()), default=0.0)


class Seeded(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(0)
