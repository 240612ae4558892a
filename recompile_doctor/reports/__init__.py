"""One document of figures and findings, laid out in each format."""
