"""What every room may use: errors, files, names, images, hashing."""
