"""Muon: steps of orthogonalised momentum for the projections, about twice as quick in steps as AdamW."""

import torch


def orthogonal(g, rounds=4):
    """[n, rows, cols] -> about the nearest matrices with singular values near 1 (Newton-Schulz)."""
    wide = g.shape[1] <= g.shape[2]
    x = g if wide else g.transpose(1, 2)
    x = x / (x.flatten(1).norm(dim=1)[:, None, None] + 1e-7)
    for _ in range(rounds):
        s = torch.bmm(x, x.transpose(1, 2))
        x = 3.4445 * x + torch.bmm(2.0315 * torch.bmm(s, s) - 4.7750 * s, x)
    return x if wide else x.transpose(1, 2)


class Muon(torch.optim.Optimizer):
    def __init__(self, parameters, lr, momentum=0.95, weight_decay=0.0):
        super().__init__(parameters, dict(lr=lr, momentum=momentum, weight_decay=weight_decay))

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            shapes = {}  # one product for all matrices of a shape
            for p in group["params"]:
                if p.grad is None:
                    continue
                state = self.state[p]
                if not state:
                    state["momentum"] = torch.zeros_like(p)
                mean = state["momentum"].lerp_(p.grad, 1 - group["momentum"])
                shapes.setdefault(p.shape[-2:], []).append((p, p.grad.lerp(mean, group["momentum"])))
            for (rows, cols), found in shapes.items():
                update = orthogonal(torch.cat([g.view(-1, rows, cols) for _, g in found]))
                begin, scale = 0, max(1.0, rows / cols) ** 0.5
                for p, g in found:
                    count = g.numel() // (rows * cols)
                    p.mul_(1 - group["lr"] * group["weight_decay"])
                    p.add_(update[begin : begin + count].view_as(p), alpha=-group["lr"] * scale)
                    begin += count
