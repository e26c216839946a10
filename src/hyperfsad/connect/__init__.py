"""The line around the product: cameras in, machines out."""
