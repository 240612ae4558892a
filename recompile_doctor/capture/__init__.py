"""From a program to a bundle on disk: environment, launch, probe."""
