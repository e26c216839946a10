"""Millions of images on Ray. Ray Data moves the work about; what is done with an image is ours.

storage  folders and files wherever fsspec finds them: here, S3, Google Cloud, the web
sources  which images are meant, lazily, and in chunks: what one call of a worker inspects
output   the results of a chunk as one Parquet file, and the totals of a run
worker   a detector in a process of its own, loaded once; takes chunks, writes Parquet files
session  a connection to a Ray cluster, or to a Ray of our own
run      the whole job, and the removal of what earlier jobs left
"""
