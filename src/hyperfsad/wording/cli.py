"""Sentences about `cli`."""

from . import Sentences

CLI_SENTENCES: Sentences = {
    "memory-short": (
        "The memory of this machine does not suffice; try a smaller {option[resolution]} or"
        " {option[batch_size]}."
    ),
    "no-image-named": "No image to inspect was named.",
    "images-after-normal": (
        "No image to inspect was named; put the images before {option[normal]}."
    ),
    "detector-has-threshold": (
        "A saved detector has its threshold; to change it, run `hyperfsad calibrate {path}` with"
        " {option[false_alarm_rate]} or with other good parts."
    ),
    "detector-or-normal": (
        "Give {option[detector]} with a saved detector, or {option[normal]} with good parts."
    ),
    "setting-fixed": "{name} is fixed in a saved detector; fit a new one to change it.",
    "good-parts-or-categories": (
        "Give either images of good parts, or {option[categories]} with a folder that holds one"
        " folder of good parts for each product."
    ),
    "categories-calibrate-one-folder": (
        "With {option[categories]}, {option[calibrate]} takes one folder of folders as well."
    ),
    "categories-differ": (
        "{folder} holds good parts of {products}, and {categories} does not; the folders' names"
        " must be the same."
    ),
    "nothing-new-learnt": "No normal image was new; the detector has not changed.",
    "product-unknown": "{product} is not a product of this detector; it knows {products}.",
    "product-needed": (
        "{path} holds several products; say with {option[product]} which one to change"
        " ({products})."
    ),
    "threshold-or-good-parts": (
        "Give either {option[threshold]}, or good parts and {option[false_alarm_rate]}."
    ),
    "output-other-file": "{path} exists and is not a detector file; choose another name.",
    "good-before-bad": "No good part was named; put the good parts before {option[bad]}.",
    "one-tree": ("Give one TREE, not {given}; name parts with {option[good]} and {option[bad]}."),
    "results-or-images": (
        "Give results of earlier runs for both the stream and the calibration, or images for both."
    ),
    "webhook-missing": (
        "{option[webhook_on]} and {option[webhook_header]} need {option[webhook]} URL."
    ),
    "serve-packages": (
        "The station needs further packages: pip install 'hyperfsad[serve]' ({package} is not"
        " installed)."
    ),
    "backup-with-database": (
        "{option[backup]} copies a store with its own database; copy another one with its own tools"
        " (pg_dump), and the files in the store's folder after it."
    ),
    "encoder-not-listed": "{name} is not one of {known}.",
    "dataset-without-root": "{option[dataset]} needs {option[root]}, the folder of the data set.",
    "efficiency-here": "The preset efficiency times this machine; leave {option[on]} out.",
    "cluster-option": "{name} is an option of a cluster; add {option[on]} ray.",
    "cluster-needs-file": (
        "On Ray, every worker loads a saved detector: make one with `hyperfsad fit` and give it"
        " with {option[detector]}."
    ),
}
