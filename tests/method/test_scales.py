"""A patch averaged with its neighbours equals the sum written out."""

import torch

from hyperfsad.method.scales import at_scale


def test_the_average_is_the_sum_written_out() -> None:
    grid, width = 4, 6
    tokens = torch.randn(2 * grid**2, width, generator=torch.Generator().manual_seed(0))
    found = at_scale(tokens, grid, 3).reshape(2, grid, grid, width)
    for image, maps in enumerate(tokens.reshape(2, grid, grid, width)):
        for row in range(grid):
            for column in range(grid):
                total = torch.zeros(width)
                for down in (-1, 0, 1):
                    for right in (-1, 0, 1):
                        y, x = row + down, column + right
                        if 0 <= y < grid and 0 <= x < grid:
                            total += (2 - abs(down)) * (2 - abs(right)) * maps[y, x]
                expected = torch.nn.functional.normalize(total, dim=0)
                assert torch.allclose(found[image, row, column], expected, atol=1e-6)


def test_the_finest_scale_is_the_patch_itself() -> None:
    tokens = torch.randn(9, 5)
    assert at_scale(tokens, 3, 1) is tokens


def test_one_patch_has_no_neighbours() -> None:
    tokens = torch.nn.functional.normalize(torch.randn(3, 5), dim=1)
    assert torch.allclose(at_scale(tokens, 1, 3), tokens)
