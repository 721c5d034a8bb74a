"""The studio: a page in the browser on which one asks what-ifs, and the server behind it."""
