"""The inspection station: an API on one port, and a store that loses nothing.

`store/` keeps products, inspections and images; `engine.py` owns the encoder; `station.py` does
what the API offers with both; `api/` speaks HTTP; `server.py` runs it all.
"""
