"""What the station keeps: rows in a database, files under the store's folder."""
