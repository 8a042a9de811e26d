#!/usr/bin/env python3
"""The Python package, and torch without it, as servers of the benchmark; peers.py says how they are asked.

CASE is gpt:L,C,H,T,B/plain, /weights or /statistics, a step of training a GPT whose attention is nn.MultiheadAttention, or its
drop-in.
usage: python_peers.py torch-drop-in|torch-modules|torch-without THREADS; PYTHONPATH and POLYHEAD_LIBRARY name the package and its library
"""
import peers

VOCABULARY = 256


class TorchModules(peers.Torch):
    """torch alone."""

    def layer(self, width, heads):
        return self.torch.nn.MultiheadAttention(width, heads, batch_first=True)

    def attention(self, layer, x, mask, want):
        """The layer's output; entropies of heads are made of the weights."""
        if want != "statistics":
            return layer(x, x, x, attn_mask=mask, need_weights=want == "weights", is_causal=True)[0]
        output, weights = layer(x, x, x, attn_mask=mask, average_attn_weights=False, is_causal=True)
        self.entropy = -self.torch.special.xlogy(weights.detach(), weights.detach()).sum(-1).mean((0, 2))
        return output

    def prepare_python(self, case):
        return self.prepare_step(case.partition(":")[2])

    def prepare_step(self, rest):
        sizes, _, want = rest.partition("/")
        layers, width, heads, length, batch = map(int, sizes.split(","))
        torch, nn, peer = self.torch, self.torch.nn, self
        torch.manual_seed(0)

        class Block(nn.Module):
            def __init__(self):
                super().__init__()
                self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2))
                self.layer = peer.layer(width, heads)
                self.feed_forward = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

            def forward(self, x):
                x = x + peer.attention(self.layer, self.norms[0](x), mask, want)
                return x + self.feed_forward(self.norms[1](x))

        mask = torch.ones(length, length, dtype=torch.bool).triu(1)
        model = nn.Sequential(nn.Embedding(VOCABULARY, width), *(Block() for _ in range(layers)), nn.Linear(width, VOCABULARY))
        optimiser = torch.optim.AdamW(model.parameters(), fused=True)
        tokens = torch.randint(VOCABULARY, (batch, length))

        def step():
            optimiser.zero_grad()
            loss = nn.functional.cross_entropy(model(tokens).flatten(0, 1), tokens.flatten())
            loss.backward()
            optimiser.step()
            return loss.detach()
        return step


class TorchWithout(TorchModules):
    """The projections, and between them sums for attention: what the fastest attention could not fall below."""

    def attention(self, layer, x, mask, want):
        q, k, v = self.torch.nn.functional.linear(x, layer.in_proj_weight, layer.in_proj_bias).chunk(3, -1)
        return layer.out_proj(q + k + v)


class TorchDropIn(TorchModules):
    """polyhead under torch."""

    def __init__(self, threads):
        super().__init__(threads)
        import polyhead.torch
        self.polyhead = polyhead
        polyhead.set_threads(int(threads))

    def info(self):
        return super().info() | {"polyhead": self.polyhead.__version__}

    def layer(self, width, heads):
        return self.polyhead.torch.MultiheadAttention(width, heads, batch_first=True)

    def attention(self, layer, x, mask, want):
        if want != "statistics":
            return super().attention(layer, x, mask, want)
        output, _, found = layer(x, x, x, attn_mask=mask, need_weights=False, is_causal=True, statistics="light")
        self.entropy = found.entropy
        return output


if __name__ == "__main__":
    peers.main({"torch-drop-in": TorchDropIn, "torch-modules": TorchModules, "torch-without": TorchWithout})
