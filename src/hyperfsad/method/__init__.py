"""The paper's method (Section 4), each equation in one place, for arrays of any library.

    memory     Section 4.1: the multi-layer memory bank, P^l and C^l
    lookups    Section 4.2: ε = ρ(q·Pᵀ)·P with sparsemax (Equation 1, Algorithm 1) and the lookups
               it is compared with (Equation 8)
    incidence  Section 4.2: the weights of all patches as a hypergraph
    matching   Section 4.2: 1 − cos(q, ε) of each patch, with most of the work left out
               (Proposition 1; `kernel.py` and `_kernel.c`)
    scoring    Section 4.3: the map (Equation 9), f_pool, S_cls (Equation 4) and S_image, the
               weighted sum of the branches (Equation 5)
    missing    ours: which pieces of good parts does an image lack?
    coreset    ours: fewer rows of a large memory bank, and how far the others are

Three things here are not in the paper, and off in its recipes: `sharpness`, a factor on the
similarities, `smooth`, the map averaged with its neighbours, and missing pieces.
"""
