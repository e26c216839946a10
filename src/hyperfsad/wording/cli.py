"""Sentences about `cli`."""

from . import Sentences

CLI_SENTENCES: Sentences = {
    "completion-package": "Completion needs one more package: pip install 'hyperfsad[completion]'.",
    "log-file": "{path} cannot be written: {reason}.",
    "config-key": "{path}: {key} is no option of this command{meant}.",
    "config-unreadable": "{path} cannot be read as TOML: {reason}.",
    "config-value": "{path}: {key} needs {expected}.",
    "either-or": "Give either {first} or {second}.",
    "memory-short": "This machine does not have enough memory; try a smaller {option[resolution]}"
    " or {option[batch_size]}.",
    "no-image-named": "No image to inspect was given; images come before {option[normal]}.",
    "detector-has-threshold": "A saved detector has its own threshold; change it with `hyperfsad"
    " calibrate {path}`.",
    "setting-fixed": "{name} is fixed in a saved detector; fit a new one to change it.",
    "categories-calibrate-one-folder": "With {option[categories]}, {option[calibrate]} takes one"
    " folder of folders as well.",
    "categories-differ": "{folder} holds good parts of {products}, but {categories} does not; both"
    " need folders of the same names.",
    "nothing-new-learnt": "The detector has already learnt all of these images, so nothing was"
    " changed.",
    "teach-incomplete": "To teach a defect, give its name with {option[defect]} and images of it.",
    "images-without-labels": "{option[images]} says where the images of {option[labels]} lie; name"
    " these, too.",
    "product-unknown": "The detector does not know the product {product}; it knows {products}.",
    "output-other-file": "{path} already exists and is not a detector file; choose another name.",
    "good-before-bad": "No good part was given; put good parts before {option[bad]}.",
    "one-tree": "Give one TREE, not {given}; to name parts, use {option[good]} and {option[bad]}.",
    "results-or-images": "Give results of earlier runs for both the stream and the calibration, or"
    " images for both.",
    "webhook-missing": "{option[webhook_on]} and {option[webhook_header]} need {option[webhook]}"
    " URL.",
    "serve-packages": "The station needs more packages ({package} is missing): pip install"
    " 'hyperfsad[serve]'.",
    "backup-with-database": "{option[backup]} copies a store with its own SQLite database; back up"
    " another database with its own tools (pg_dump), then copy the store's folder.",
    "encoder-not-listed": "The encoder must be one of {known}, not {name}.",
    "dataset-without-root": "{option[dataset]} needs {option[root]}, the folder of the data set.",
    "cluster-option": "{name} needs {option[on]} ray.",
    "cluster-needs-file": "Workers on Ray load a saved detector: make one with `hyperfsad fit` and"
    " pass it with {option[detector]}.",
}
