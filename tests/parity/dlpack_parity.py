"""Arrays that only speak DLPack, of types that NumPy does not have: they go through torch, and so do options beside them.

    python tests/parity/dlpack_parity.py build/release
"""

import os
import sys
import unittest
from pathlib import Path

os.environ.setdefault("POLYHEAD_LIBRARY", str(Path(sys.argv.pop(1)).resolve() / "capi/libpolyhead_c.so"))
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "python"))

import torch  # noqa: E402

import polyhead  # noqa: E402


class Other:
    """A tensor of somebody else's."""

    def __init__(self, tensor):
        self._tensor, self.shape = tensor, tuple(tensor.shape)

    def __dlpack__(self, **arguments):
        return self._tensor.__dlpack__(**arguments)

    def __dlpack_device__(self):
        return self._tensor.__dlpack_device__()


class Dlpack(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(1)
        self.x = torch.randn(1, 2, 5, 8, dtype=torch.bfloat16)
        self.options = {"keep": torch.rand(5, 5) < 0.7, "gates": torch.tensor([1.0, 0.5])}
        self.others = {name: Other(x) for name, x in self.options.items()}

    def test_forward(self):
        x, other = self.x, Other(self.x)
        torch.testing.assert_close(polyhead.attention(other, other, other), polyhead.attention(x, x, x), rtol=0, atol=0)
        marked, expected = torch.ones(1, 5, dtype=torch.bool), {"statistics": "full", "align": "top_left"}
        found = polyhead.attention(other, x, other, **self.others, **expected, marked_keys=Other(marked))
        wanted = polyhead.attention(x, x, x, **self.options, **expected, marked_keys=marked)
        torch.testing.assert_close(found.output, wanted.output, rtol=0, atol=0)
        torch.testing.assert_close(found.statistics.sums, wanted.statistics.sums, rtol=0, atol=0)

    def test_backward(self):
        x, other = self.x, Other(self.x)
        found = polyhead.attention_backward(other, other, other, other, **self.others)
        wanted = polyhead.attention_backward(x, x, x, x, **self.options)
        for name in ("dq", "dk", "dv", "dgates"):
            torch.testing.assert_close(getattr(found, name), getattr(wanted, name), rtol=0, atol=0)

    def test_beside_tensors(self):
        """What comes with a tensor of torch becomes one."""
        x = self.x.float()
        torch.testing.assert_close(polyhead.attention(x, Other(x), x, **self.others), polyhead.attention(x, x, x, **self.options))

    def test_what_cannot_be_is_named(self):
        with self.assertRaisesRegex(polyhead.DTypeError, "query: expected an array of NumPy, found a tensor of torch"):
            polyhead.MultiHeadAttention(8, 2)(Other(self.x[0]))
        with self.assertRaisesRegex(polyhead.DTypeError, "q: .*float8"):
            polyhead.attention(self.x.to(torch.float8_e5m2), self.x, self.x)


if __name__ == "__main__":
    unittest.main()
