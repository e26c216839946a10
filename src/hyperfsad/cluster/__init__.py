"""Millions of images on Ray. Ray Data moves the work about; what is done with an image is ours.

places   folders and files wherever fsspec finds them: here, S3, Google Cloud, the web
sources  which images are meant, lazily, and cut into chunks: what one call of a worker inspects
parts    the results of a chunk as one Parquet file; what of it was done before
totals   what can be said of many images in a few words
worker   a detector in a process of its own, loaded once; takes chunks, writes parts
started  a Ray that is there already, or one of our own
run      from images to parts: the whole job, and tidying up after earlier ones
spread   the benchmark's blocks and metrics, computed by workers
"""
