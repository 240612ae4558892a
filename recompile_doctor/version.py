"""The version of the tool, alone in a module so that the build and the manifest read one place."""

VERSION = "0.1.0"
