"""The benchmark: data sets, metrics, the paper's protocol, tables, figures."""
