"""The paper's method (Section 4), each equation in one place.

    memory     Section 4.1: the multi-layer memory bank, P^l and C^l
    lookups    Section 4.2: ε = ρ(q·Pᵀ)·P with sparsemax (Equation 1, Algorithm 1) and the lookups
               it is compared with (Equation 8)
    matching   Section 4.2: the memory ready to be asked, 1 − cos(q, ε) of each patch
    incidence  Section 4.2: the weights of all patches at once, as a sparse matrix (a hypergraph)
    pruning    the same distances with most of the work left out (Proposition 1), and `_kernel.c`
    scoring    Section 4.3: the map (Equation 9), f_pool, S_cls (Equation 4)
    branches   Section 4.3: S_image, the weighted sum of the branches (Equation 5)
    missing    ours: which pieces of good parts does an image lack?

Three things here are not in the paper, and off in its recipes: `sharpness`, a factor on the
similarities, `smooth`, the map averaged with its neighbours, and missing pieces.
"""
